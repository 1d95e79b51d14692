"""What the chat models of local checkpoints have in common: their settings, and those of a call."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from langchain_core.language_models import BaseChatModel
from PIL import Image
from pydantic import Field, model_validator

from .images import block_image, shrink_image

# Every chat model of LangChain is given these; a local one has no use for them.
_REMOTE = {"api_key", "max_retries", "streaming"}


class LocalChat(BaseChatModel):
    """A vision-language checkpoint on this machine.

    Attributes:
        model: Local folder or hub name of a checkpoint.
        revision: Branch, tag or commit of a hub model.
        dtype: "auto" (the checkpoint's own), "float32", "bfloat16" or "float16".
        device: "auto" (a CUDA GPU if there is one, else the CPU), "cpu", "cuda" and so on.
        max_pixels: Images with more pixels are shrunk to this; None leaves it to the processor.
        max_tokens: Limit on the output, in tokens. Per call: `max_tokens=`.
        temperature: 0 takes the likeliest token; above, tokens are drawn. The sampling settings
            that a checkpoint brings are not used. Per call: `temperature=`.
        seed: Makes drawing repeatable: same input, same output. Per call: `seed=`.
        stop: The output ends before the first of these strings. Per call: `stop=`.
        timeout: Seconds a call may take once the model is loaded, waiting for other calls included.
            Per call: `timeout=`.
        logprobs: Whether `response_metadata["logprobs"]` gets `{"content": [...]}` with an entry
            `{"token", "bytes", "logprob", "top_logprobs"}` a token of the output (without its end
            token), in the form ChatOpenAI uses. Per call: `logprobs=`.
        top_logprobs: How many of the likeliest tokens each entry of `logprobs` lists. Per call:
            `top_logprobs=`.
        allow_fetch: Whether images may be downloaded from http(s) URLs.
    """

    takes_timeout: ClassVar[bool] = True

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    max_pixels: int | None = Field(default=None, gt=0)
    max_tokens: int = Field(default=512, gt=0)
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=0)
    stop: list[str] | None = None
    timeout: float | None = Field(default=None, gt=0)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=20)
    allow_fetch: bool = False

    @model_validator(mode="before")
    @classmethod
    def _known_settings(cls, values: Any) -> Any:
        unknown = sorted(set(values) - set(cls.model_fields) - _REMOTE)
        if unknown:
            # As for any function; pydantic would wrap a ValueError into several lines.
            raise TypeError(
                f"{cls.__name__} has no setting {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(sorted(own_settings(cls)))}."
            )
        return values

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in sorted(own_settings(type(self)))}

    def _call_settings(
        self,
        names: Sequence[str],
        stop: Sequence[str] | None,
        given: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The settings of one call: the instance's, and over them those of the call.

        Args:
            names: Settings that a call may have of its own.
            stop: Stop strings of the call.
            given: Further settings of the call, by name.

        Raises:
            ValueError: A setting that a call does not take, or a bad timeout.
        """
        # LangChain itself passes `stream`.
        unknown = sorted(set(given) - {*names, "stream"})
        if unknown:
            raise ValueError(
                f"{type(self).__name__} does not know {', '.join(map(repr, unknown))}; a call "
                f"takes {', '.join(names)} and stop."
            )
        own = {name: given[name] for name in names if given.get(name) is not None}
        settings = {name: getattr(self, name) for name in names} | own
        if settings["timeout"] is not None and settings["timeout"] <= 0:
            raise ValueError("The timeout must be more than 0 seconds.")
        stop = self.stop if stop is None else stop
        settings["stop"] = (stop,) if isinstance(stop, str) else tuple(stop or ())
        return settings

    def _load_image(self, block: Mapping[str, Any]) -> Image.Image:
        image = block_image(block, allow_fetch=self.allow_fetch)
        return shrink_image(image, self.max_pixels)


def own_settings(kind: type[BaseChatModel]) -> set[str]:
    """The settings of a chat model that LangChain's base class does not have."""
    return set(kind.model_fields) - set(BaseChatModel.model_fields)
