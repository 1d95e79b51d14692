"""What all configurations have in common."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Cannot be changed once it is made; unknown keys are refused by name.

    Errors do not repeat what was given: it may hold a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
