"""What a user sets, as frozen pydantic models: pairs of models, prompt styles, sparse transfer."""

import re
from string import Formatter
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from ..answers import AnswerType

Backend = Literal["transformers", "vllm", "server"]
Keep = Literal["attention", "sentences", "last", "random", "small"]

MEMORY = {"small": 0.3, "large": 0.6}
"""Shares of a GPU that the two models of a pair take under vLLM, where its file names none."""

EXAMPLE_ADDRESS = "http://localhost:8101/v1"


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one sentence that says what to change."""


class Frozen(BaseModel):
    """Cannot be changed once it is made; unknown keys are refused by name.

    Errors do not repeat what was given: it may hold a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def refuse_bool(value: object) -> object:
    """Raise a ValueError for true and false, which pydantic would read as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def server_address(text: str) -> str:
    """Return an http(s) URL of a host in one form: no surrounding spaces, no slashes at its end.

    Raises:
        ValueError: It is no such URL, or holds a query. The message starts with a verb and does not
            repeat the address, which may hold a secret.
    """
    text = text.strip()
    no_url = f"must be an http(s) URL, such as {EXAMPLE_ADDRESS}"
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError as error:  # brackets of an IPv6 address that do not match
        raise ValueError(no_url) from error
    _, colon, port = parts.netloc.rpartition("]")[2].partition(":")
    problems = {
        "must hold no spaces or control characters": not text.isprintable() or " " in text,
        "must hold no user or password; put the key into the environment": "@" in parts.netloc,
        no_url: parts.scheme not in {"http", "https"} or not host,
        "must end with its path: no query and no fragment after it": {"?", "#"} & set(text),
        "must have a port from 1 to 65535 after the colon, or no colon": colon
        and not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536),
    }
    for problem, found in problems.items():
        if found:
            raise ValueError(problem)
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ValueError("must name a host that can exist; correct its name") from error
    return parts.geturl().rstrip("/")


class SparseTransfer(Frozen):
    """How sparse transfer selects tokens (the paper's sparse reasoning transfer, Table 9).

    The attention that one position of the transfer prompt pays to the tokens of the reasoning, at
    one layer and in the mean over its heads, says how much each token matters. The smallest set of
    tokens that holds `share` of it is transferred. The other values of `keep` transfer as many
    tokens, chosen otherwise, to show what selecting by attention buys.

    Attributes:
        layer: Layer of the language model, 1 for the first; None for the same depth as layer 22 of
            36, which did best for its tokens in the paper's Table 9.
        share: Share of the attention on the reasoning that the kept tokens hold, above 0, at most
            1; 1 keeps every token.
        query: Position whose attention is read, counted from the end of the prompt: -1 is the last
            one, which writes the first token of the answer.
        keep: "attention"; or, for the same number of tokens: "sentences" (whole ones, those with
            most attention first), "last" (the end of the reasoning), "random", "small" (by the
            small model's own attention).
    """

    layer: int | None = Field(default=None, ge=1)
    share: float = Field(default=0.8, gt=0, le=1, allow_inf_nan=False)
    query: int = Field(default=-1, lt=0)
    keep: Keep = "attention"

    _numbers_only = field_validator("layer", "share", "query", mode="before")(refuse_bool)


class StyleConfig(Frozen):
    """One prompt style: how a model is told to answer, and how long its output may be.

    Attributes:
        instruction: The last part of the prompt. It starts with a letter, so that no tokenizer
            joins its first token with the line break that ends the shared prefix.
        max_tokens: Limit on the output, in tokens.
    """

    instruction: str = Field(min_length=1)
    max_tokens: int = Field(gt=0)

    _numbers_only = field_validator("max_tokens", mode="before")(refuse_bool)

    @field_validator("instruction")
    @classmethod
    def _starts_with_a_letter(cls, value: str) -> str:
        if not value[0].isalpha():
            raise ValueError("must start with a letter, or the prompt prefix cannot be reused")
        return value


class TransferConfig(StyleConfig):
    """Reasoning transfer and two-stage: the prompt that passes a finished reasoning to a model.

    Attributes:
        instruction: Holds `{reasoning}` once, where the reasoning goes.
    """

    @field_validator("instruction")
    @classmethod
    def _holds_the_reasoning(cls, value: str) -> str:
        if value.count("{reasoning}") != 1:
            raise ValueError("must hold {reasoning} exactly once")
        return value


class PromptsConfig(Frozen):
    """Every text the graph puts around a question (the paper's prompt styles S, E and R).

    Attributes:
        system: System message, or None for none.
        choice: One line per choice, with `{letter}` and `{text}`.
        direct: Style S, answer at once.
        explain: Style E, explain, then answer.
        reason: Style R, reason step by step, then answer on a last line.
        transfer: The direct style with a finished reasoning before it.
        answer_hints: A sentence per answer type, put where an instruction holds `{hint}`; missing
            types get none.
    """

    system: str | None = None
    choice: str = "{letter}. {text}"
    direct: StyleConfig
    explain: StyleConfig
    reason: StyleConfig
    transfer: TransferConfig
    answer_hints: dict[AnswerType, str] = Field(default_factory=dict)

    @field_validator("choice")
    @classmethod
    def _shows_letter_and_text(cls, value: str) -> str:
        try:
            fields = [field for _, *field in Formatter().parse(value) if field[0] is not None]
        except ValueError:
            fields = []
        # No format either: one such as {text:>999999999} would fill the memory.
        plain = all(field[1:] == ["", None] for field in fields)
        if not plain or {str(field[0]) for field in fields} != {"letter", "text"}:
            raise ValueError("must hold {letter} and {text}, and no other braces than {{ and }}")
        return value


class ModelConfig(Frozen):
    """One model of a pair.

    Which backend runs it is one word of the pair file; keys that only another backend needs are
    kept for it. Under `server`, the server has its own dtype, device and engine.

    Attributes:
        model: Local folder or hub name. What starts with `./` or `../`, or names a folder below
            the pair file's own, is taken from there; `demo:NAME` from the weights that the package
            carries. Under `server`: the name it is served under.
        backend: What runs this model; None for the pair's backend.
        revision: Branch, tag or commit of a hub model.
        dtype: Torch dtype by name, or "auto" for the checkpoint's own.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", "mps".
        max_pixels: Images with more pixels are shrunk to this; None leaves it to the processor.
        timeout: Seconds that one call may take; None for no limit.
        attention: `transformers`: its attention implementation; None for its default.
        batch_size: `transformers`: how many calls go through the model at once; None for its
            default.
        prefix_cache_bytes: `transformers`: memory for the KV caches of earlier prompts; None
            for a share of what is free, 0 for none.
        memory: `vllm`: share of the GPU's memory, weights and KV cache together; None for 0.3 for
            the small model and 0.6 for the large one.
        max_images: `vllm`: images that one prompt may hold; vLLM reserves memory for them.
        engine: `vllm`: engine options by vLLM's own names, such as `max_model_len`.
        base_url: `server`: address of its OpenAI-compatible API, which ends in `/v1`.
        api_key_env: `server`: name of the environment variable that holds its key. A key itself is
            never in a file.
        retries: `server`: how often a call is sent again after a connection error, a 429 or a 5xx.
    """

    model: str = Field(min_length=1)
    backend: Backend | None = None
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    max_pixels: int | None = Field(default=None, gt=0)
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    attention: str | None = None
    batch_size: int | None = Field(default=None, gt=0)
    prefix_cache_bytes: int | None = Field(default=None, ge=0)
    memory: float | None = Field(default=None, gt=0, le=1)
    max_images: int = Field(default=8, gt=0)
    engine: dict[str, Any] = Field(default_factory=dict)
    base_url: str | None = None
    api_key_env: str = Field(default="VLLM_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    retries: int = Field(default=2, ge=0)

    _numbers_only = field_validator(
        "max_pixels", "timeout", "batch_size", "prefix_cache_bytes", "memory", "max_images",
        "retries", mode="before",
    )(refuse_bool)  # fmt: skip

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return None if value is None else server_address(value)


def _selector_form(value: object) -> str | None:
    """Which form of a selector a value has; the brackets keep it out of keys in error messages."""
    if value == "small":
        return "[role]"
    return "[model]" if isinstance(value, dict | ModelConfig) else None


Selector = Annotated[
    Annotated[Literal["small"], Tag("[role]")] | Annotated[ModelConfig, Tag("[model]")],
    Discriminator(
        _selector_form,
        custom_error_type="selector",
        custom_error_message="Input should be small, or a model with keys as those of large",
    ),
]
"""Who gives the attention of sparse transfer instead of the large model."""


class PairConfig(Frozen):
    """A small and a large model that answer together.

    Attributes:
        description: One line for people.
        backend: What runs the models: `transformers`, `vllm` (an engine in this process), or
            `server` (an OpenAI-compatible server that already runs, see `mai serve --models`).
        prompts: Name of a file in configs/prompts, or a path to one, from the pair file's folder.
        small: The small agent's model.
        large: The large agent's model.
        sparse: How sparse transfer selects tokens, where it is asked for.
        selector: Whose attention it selects by: None for the large model's own; "small" for the
            small model's, which is a variant; or a model that transformers runs, a copy of the
            large one, loaded to the layer that `sparse` names. Needed where the large model runs on
            another backend, which gives no attention.
        gate: The file of `mai calibrate` for this pair: where the small model is sure enough, the
            large one is not called. None for no gate.
        audit: The file that holds the state of the gate's audit; None keeps it in the process.
    """

    description: str = ""
    backend: Backend = "transformers"
    prompts: str = "default"
    small: ModelConfig
    large: ModelConfig
    sparse: SparseTransfer = SparseTransfer()
    selector: Selector | None = None
    gate: str | None = None
    audit: str | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> "PairConfig":
        for role in ("small", "large"):
            # Here, where the message does not show what was given.
            if "hf_token" in getattr(self, role).engine:
                raise ValueError(
                    f"{role}.engine.hf_token would be a key in a file; set HF_TOKEN in the "
                    "environment instead"
                )
            if self.backend_of(role) == "server" and getattr(self, role).base_url is None:
                raise ValueError(
                    f"the backend server needs {role}.base_url, such as {EXAMPLE_ADDRESS}"
                )
        selector = self.selector
        if selector == "small" and self.backend_of("small") != "transformers":
            raise ValueError(
                f"selector: small needs a small model that runs on transformers, not on "
                f"{self.backend_of('small')}; name a model of its own for selector"
            )
        if isinstance(selector, ModelConfig) and selector.backend in {"vllm", "server"}:
            raise ValueError(
                f"the selector runs on transformers, for {selector.backend} gives no attention; "
                "remove selector.backend"
            )
        total = self.memory_of("small") + self.memory_of("large")
        on_vllm = {self.backend_of("small"), self.backend_of("large")} == {"vllm"}
        if on_vllm and self.on_one_device and total > 1:
            raise ValueError(
                f"small.memory and large.memory are shares of one GPU and add up to {total:g}; "
                "they must not exceed 1"
            )
        return self

    @property
    def on_one_device(self) -> bool:
        """Tell whether both models are on the same device, as far as their settings tell."""
        first_gpu = {"auto", "cuda", "cuda:0"}
        devices = {self.small.device, self.large.device}
        return len(devices) == 1 or devices <= first_gpu

    def backend_of(self, role: str) -> Backend:
        """Return what runs the model of a role."""
        backend: Backend | None = getattr(self, role).backend
        return backend or self.backend

    def memory_of(self, role: str) -> float:
        """Return the share of a GPU's memory that the model of a role takes under vLLM."""
        memory: float | None = getattr(self, role).memory
        return MEMORY[role] if memory is None else memory
