"""The settings of one run: what `context=` provides, and what the nodes read of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from ..configs import list_prompts
from ..configs.schemas import refuse_bool
from .fields import check_readings
from .state import AskedType, CallKey, MAIInputError, ModelCall, RunState

_MOST = 2**31 - 1

# Once: LangGraph's server makes contexts on its event loop, where no folder may be read.
_PROMPT_SETS = tuple(list_prompts())


class MAIContext(BaseModel):
    """Settings of one run; what is left out stays as the graph was made.

    As a subgraph, the cascade gets its parent's context: there, these settings are read from a
    field `mai` (an `MAIContext` or a dict), or else from fields of the same names.

    Raises:
        MAIInputError: A field that does not exist, or a value out of its range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    transfer: Literal["full", "sparse"] | None = Field(None, examples=["full", "sparse"])
    """What of the reasoning the large model reads; "sparse" needs a model that gives attention."""
    sparse_layer: int | None = Field(None, gt=0, le=_MOST, examples=[22])
    """Sparse transfer: the layer whose attention is read, 1 for the first."""
    sparse_share: float | None = Field(None, gt=0, le=1, examples=[0.8])
    """Sparse transfer: the share of the attention that is kept, above 0, at most 1."""
    prompts: str | None = Field(None, examples=["default"])
    """A prompt set of configs/prompts, by name; empty for the pair's own."""
    answer_type: AskedType = Field("auto", examples=["auto", "yes_no"])
    """What kind of answer is expected, where the input does not say."""
    timeout: float | None = Field(None, gt=0, allow_inf_nan=False, examples=[60])
    """Seconds that one model call may take."""
    max_tokens_direct: int | None = Field(None, gt=0, le=_MOST, examples=[64])
    """Limit on a direct answer, in tokens."""
    max_tokens_reason: int | None = Field(None, gt=0, le=_MOST, examples=[2048])
    """Limit on a reasoning, in tokens."""
    max_tokens_transfer: int | None = Field(None, gt=0, le=_MOST, examples=[64])
    """Limit on the answer after a transferred reasoning, in tokens."""
    show_disagreement: bool | None = None
    """Whether the answering message says so where the models' direct answers differ."""
    free_text_overlap: float | None = Field(None, ge=0, le=1, examples=[0.6])
    """Share of common words from which two free texts can agree, 0 to 1; for the default verifier
    and the rules of a `Judge`."""

    if not TYPE_CHECKING:  # Type checkers read the fields.

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                problem = error.errors(include_url=False, include_input=False)[0]
                # Further parts name the branch of a union, which is no setting.
                name = str(problem["loc"][0]) if problem["loc"] else "context"
                reason = problem["msg"].removeprefix("Value error, ")
                raise MAIInputError(
                    f"The setting {name!r} cannot be used ({reason}); correct it or leave it out."
                ) from error

    @model_validator(mode="before")
    @classmethod
    def _empty_is_not_given(cls, values: Any) -> Any:
        """Drop the fields of a form that nobody filled in: they come as empty texts."""
        if not isinstance(values, Mapping):
            return values
        return {name: value for name, value in values.items() if value != ""}

    _numbers_only = field_validator(
        "sparse_layer",
        "sparse_share",
        "timeout",
        "max_tokens_direct",
        "max_tokens_reason",
        "max_tokens_transfer",
        "free_text_overlap",
        mode="before",
    )(refuse_bool)

    @field_validator("prompts")
    @classmethod
    def _is_a_prompt_set(cls, value: str | None) -> str | None:
        # Names only: whoever may start a run on a server must not read files by it.
        if value is not None and value not in _PROMPT_SETS:
            raise ValueError(f"must be one of {', '.join(_PROMPT_SETS)}")
        return value

    def settings(self) -> dict[str, Any]:
        """Return what is set, `answer_type` aside, as plain data for the state."""
        return self.model_dump(exclude_none=True, exclude={"answer_type"})


_UNSET = MAIContext()


def read_context(context: object) -> MAIContext:
    """Read a run's context, whatever it is: none, an `MAIContext`, or a parent graph's own object.

    Raises:
        MAIInputError: A field of the same name (or `mai`) that holds no such setting.
    """
    if context is None:
        return _UNSET
    if isinstance(context, MAIContext):
        return context
    inner = _field(context, "mai")
    if isinstance(inner, MAIContext):
        return inner
    if isinstance(inner, Mapping):
        given = dict(inner)
    else:
        fields = ((name, _field(context, name)) for name in MAIContext.model_fields)
        given = {name: value for name, value in fields if value is not None}
    try:
        return MAIContext(**{str(name): value for name, value in given.items()})
    except MAIInputError as error:
        raise MAIInputError(
            f"{error} If it is the parent graph's own, give those of this graph in a field `mai`."
        ) from error


def _field(context: object, name: str) -> Any:
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)


_CHECKED: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(kind)
    for name, kind in get_type_hints(RunState).items()
    if name in {*get_args(CallKey), "task", "image_data", "review", "gate", "disputed"}
    or name.endswith("_verdict")
}
"""What nodes read of each other, by key."""


def check_state(state: RunState) -> None:
    """Refuse what no node has written so: on a server, anyone who starts a run can write state.

    Raises:
        MAIInputError: A key that nodes read of each other holds something else, or there is no
            task.
    """
    name = "task"
    try:
        for name, kind in _CHECKED.items():
            value: Any = state.get(name)
            if value is not None or name == "task":
                kind.validate_python(value, strict=True)
        name = "task.settings"
        if settings := state["task"].get("settings"):
            MAIContext.model_validate(settings)
        name = "task.schema"
        if "schema" in state["task"]:
            calls = (state.get(key) for key in get_args(CallKey))
            check_readings(state["task"], [cast("ModelCall", call) for call in calls if call])
    except (TypeError, ValueError) as error:
        # Without what it holds: this may be shown to whoever wrote it.
        raise MAIInputError(
            f"The run's state holds no {name!r} as this graph writes it; start a new run with a "
            "question."
        ) from error
