"""A small and a large model, and what runs them."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from .frozen import Frozen
from .server_address import EXAMPLE, server_address
from .sparse_transfer import SparseTransfer

Backend = Literal["transformers", "vllm", "server"]

MEMORY = {"small": 0.3, "large": 0.6}
"""Shares of a GPU that the two models of a pair take under vLLM, where its file names none."""


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
        prefix_cache_bytes: `transformers`: memory for the keys and values of earlier prompts; None
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
            `server` (an OpenAI-compatible server that already runs, see `mai serve`).
        prompts: Name of a file in configs/prompts, or a path to one, from the pair file's folder.
        small: The small agent's model.
        large: The large agent's model.
        sparse: How sparse transfer selects tokens, where it is asked for.
        selector: Whose attention it selects by: None for the large model's own; "small" for the
            small model's, which is a variant; or a model that transformers runs, a copy of the
            large one, loaded to the wanted layer only. Needed where the large model runs on
            another backend, which gives no attention.
    """

    description: str = ""
    backend: Backend = "transformers"
    prompts: str = "default"
    small: ModelConfig
    large: ModelConfig
    sparse: SparseTransfer = SparseTransfer()
    selector: Selector | None = None

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
                raise ValueError(f"the backend server needs {role}.base_url, such as {EXAMPLE}")
        self._check_selector()
        shared = [role for role in ("small", "large") if self.backend_of(role) == "vllm"]
        if len(shared) == 2 and self.on_one_device:
            total = self.memory_of("small") + self.memory_of("large")
            if total > 1:
                raise ValueError(
                    f"small.memory and large.memory are shares of one GPU and add up to {total:g}; "
                    "they must not exceed 1"
                )
        return self

    def _check_selector(self) -> None:
        """Refuse a selector that gives no attention.

        Raises:
            ValueError: It does not run on transformers.
        """
        if self.selector == "small" and self.backend_of("small") != "transformers":
            raise ValueError(
                f"selector: small needs a small model that runs on transformers, not on "
                f"{self.backend_of('small')}; name a model of its own for selector"
            )
        if isinstance(self.selector, ModelConfig) and self.selector.backend in {"vllm", "server"}:
            raise ValueError(
                f"the selector runs on transformers, for {self.selector.backend} gives no "
                "attention; remove selector.backend"
            )

    @property
    def on_one_device(self) -> bool:
        """Whether both models are on the same device, as far as their settings tell."""
        first_gpu = {"auto", "cuda", "cuda:0"}
        devices = {self.small.device, self.large.device}
        return len(devices) == 1 or devices <= first_gpu

    def backend_of(self, role: str) -> Backend:
        """What runs the model of a role."""
        backend: Backend | None = getattr(self, role).backend
        return backend or self.backend

    def memory_of(self, role: str) -> float:
        """The share of a GPU's memory that the model of a role takes under vLLM."""
        memory: float | None = getattr(self, role).memory
        return MEMORY[role] if memory is None else memory
