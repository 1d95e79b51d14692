"""What all configurations have in common."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Cannot be changed once it is made; unknown keys are refused by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")
