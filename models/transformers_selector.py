"""`TransformersSelector`: a checkpoint that gives attention, loaded no deeper than that takes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import BaseMessage
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from .attention import Attention
from .attention_reader import AttentionReader, AttentionRequest
from .images import block_image, shrink_image
from .transformers.loaded_models import get_engine_to, layer_count, release_engines_to
from .transformers.model_spec import ModelSpec
from .wanted_layers import Layers, wanted_layers
from .weights import model_weights

if TYPE_CHECKING:
    from .transformers.engine import Engine


class TransformersSelector(BaseModel):
    """Selects for sparse transfer where the model that answers gives no attention.

    It is a copy of that model, run by transformers, whose language model is loaded to the highest
    layer that was asked for; the layers above and the output head are not read. No chat model.

    The weights load at the first call; one that asks for a higher layer loads them again. Selectors
    of one model share them, and use a `ChatTransformers` of the same model if one is loaded. Passes
    about one question share the keys and values of what their prompts begin with.

    Attributes:
        model: Local folder or hub name of a checkpoint.
        revision: Branch, tag or commit of a hub model.
        dtype: "auto" (the checkpoint's own), "float32", "bfloat16" or "float16".
        device: "auto" (a CUDA GPU if there is one, else the CPU), "cpu", "cuda" and so on.
        attn_implementation: Attention implementation of transformers, None for its choice; used by
            the vision tower, for passes have their own.
        max_pixels: Images with more pixels are shrunk to this; None leaves it to the processor.
        timeout: Seconds that a pass may take once the model is loaded, waiting for others included.
            Per call: `timeout=`.
        prefix_cache_bytes: Memory for the keys and values of earlier prompts. None takes an eighth
            of the memory that is free once the model is loaded; 0 turns it off.
        allow_fetch: Whether images may be downloaded from http(s) URLs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    attn_implementation: str | None = None
    max_pixels: int | None = Field(default=None, gt=0)
    timeout: float | None = Field(default=None, gt=0)
    prefix_cache_bytes: int | None = Field(default=None, ge=0)
    allow_fetch: bool = False

    def load(self, layers: Layers = None) -> "TransformersSelector":
        """Load the weights now instead of at the first call; returns the selector itself.

        Args:
            layers: Layers that will be asked for, as for `attention`.

        Raises:
            ImportError: torch, transformers or torchvision is not installed.
            ModelError: The model cannot be loaded, or has no such layer.
        """
        self._engine(layers)
        return self

    def unload(self) -> None:
        """Free the weights, for all selectors that share them; the next call loads them again."""
        release_engines_to(self._spec())

    def count_layers(self) -> int:
        """Layers of the language model; nothing is loaded for it.

        Raises:
            ImportError: torch, transformers or torchvision is not installed.
            ModelError: There is no such model, or its attention cannot be read.
        """
        return layer_count(self._spec())

    def attention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        *,
        layers: Sequence[int] | Literal["all"] | None = None,
        query: int = -1,
        heads: bool = False,
        timeout: float | None = None,
    ) -> Attention:
        """The attention that a position of a prompt pays to a stretch of its last message.

        See `GivesAttention` for what it takes; `timeout` is the selector's own by default.

        Raises:
            ModelError: The model cannot be loaded or its attention not be read; no such stretch,
                layer or query; a chat template that changes the text; or the pass failed.
            ContextLengthError: The prompt is longer than the model's context.
            CallTimeoutError: It took longer than its timeout.
            ImportError: torch, transformers or torchvision is not installed.
        """
        request = AttentionRequest(messages, span, layers, query, heads, timeout)
        return self._reader().read(request)

    async def aattention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        *,
        layers: Sequence[int] | Literal["all"] | None = None,
        query: int = -1,
        heads: bool = False,
        timeout: float | None = None,
    ) -> Attention:
        """`attention` for the event loop. A caller that is cancelled gives up its place."""
        request = AttentionRequest(messages, span, layers, query, heads, timeout)
        return await self._reader().aread(request)

    def _reader(self) -> AttentionReader:
        return AttentionReader(
            model_name=self.model,
            engine=self._engine,
            load_image=self._load_image,
            timeout=self.timeout,
            prefix_cache_bytes=self.prefix_cache_bytes,
        )

    def _engine(self, layers: Layers) -> "tuple[Engine, tuple[int, ...]]":
        spec = self._spec()
        wanted = wanted_layers(layers, layer_count(spec), self.model)
        return get_engine_to(spec, max(wanted)), wanted

    def _load_image(self, block: Mapping[str, Any]) -> Image.Image:
        return shrink_image(block_image(block, allow_fetch=self.allow_fetch), self.max_pixels)

    def _spec(self) -> ModelSpec:
        return ModelSpec(
            model=model_weights(self.model),
            revision=self.revision,
            dtype=self.dtype,
            device=self.device,
            attention=self.attn_implementation,
        )
