"""`ChatTransformers`: any vision-language checkpoint of transformers as a LangChain chat model."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from langchain_core.messages import BaseMessage
from pydantic import Field

from ..attention import Attention, wanted_layers
from ..capabilities import AttentionOptions
from ..chat_format import chat_turns
from ..completion import Chunk, Completion, Settings
from ..errors import ModelError
from ..local_chat import LocalCall, LocalChat, check_timeout, model_weights, start_in_thread
from .loading import (
    ModelSpec,
    check_draft_files,
    count_layers,
    get_engine,
    release_engine,
)

if TYPE_CHECKING:
    from .engine import Engine

_PER_CALL = (
    "model", "draft", "max_tokens", "temperature", "seed", "logprobs", "top_logprobs", "timeout",
)  # fmt: skip


class ChatTransformers(LocalChat):
    """A local vision-language model, run with transformers.

    Takes any checkpoint that `AutoModelForImageTextToText` loads, with images in any form that
    `images.block_image` reads. The weights load at the first call or by `load`, once per process:
    instances that ask for the same model share it.

    Example:
        >>> model = ChatTransformers(model="Qwen/Qwen3-VL-2B-Instruct", dtype="bfloat16")
        >>> image = load_image("cat.png").block
        >>> model.invoke([HumanMessage([image, {"type": "text", "text": "Who?"}])])

    Attributes (besides those of every `LocalChat`; a call may also have its own `model=`):
        attn_implementation: Attention implementation of transformers (sdpa, eager, ...), None for
            its choice.
        threads: CPU threads of this model. None: one for models of fewer than 50 million parameters
            (more would mostly wait for each other), torch's own number for others.
        layers: Layers of the language model to load. Such a model gives attention on them, for
            sparse transfer beside a model on another backend, and does not answer. None: all.
        batch_size: How many calls go through the model at once, padded on the left. In float32 the
            outputs are those of single calls.
        batch_tokens: Tokens that such a batch may have, padding and outputs included.
        prefix_cache_bytes: Memory for the KV caches of earlier prompts. A prompt that begins like
            one of them, images included, computes only the rest, with the same output. None takes
            an eighth of the memory that is free once the model is loaded; 0 turns it off.
        draft: A faster model with the same tokenizer, which proposes tokens (speculative decoding).
            The output is the one without it, at temperature 0; `response_metadata` tells how many
            tokens the draft proposed (`drafted_tokens`) and how many are in the output
            (`accepted_tokens`). Such calls go through the model one by one, and compute their
            prompts anew. Per call: `draft=`.
    """

    provider: ClassVar[str] = "transformers"

    @property
    def supports_schema(self) -> bool:
        """Whether calls can be held to a schema: llguidance is installed."""
        return find_spec("llguidance") is not None

    attn_implementation: str | None = None
    threads: int | None = Field(default=None, gt=0)
    layers: int | None = Field(default=None, gt=0)
    batch_size: int = Field(default=32, gt=0)
    batch_tokens: int = Field(default=32_768, gt=0)
    prefix_cache_bytes: int | None = Field(default=None, ge=0)
    draft: "ChatTransformers | None" = None

    def load(self) -> "ChatTransformers":
        """Load the weights now instead of at the first call; return the model itself.

        Raises:
            ImportError: torch, transformers or torchvision is not installed.
            ModelError: The model cannot be loaded, or has fewer than the wanted layers.
        """
        self._engine()
        return self

    def unload(self) -> None:
        """Release the weights, for all instances that share them; the next call loads them."""
        release_engine(self._spec())

    def count_layers(self) -> int:
        """Return the layers of the whole language model; nothing is loaded for it.

        Raises:
            ImportError: torch, transformers or torchvision is not installed.
            ModelError: There is no such model, or its attention cannot be read.
        """
        return count_layers(self._spec())

    def check_draft(self, draft: object, *, files: bool = False) -> None:
        """Refuse what is not run with transformers, too, or else cannot draft.

        Args:
            draft: Any chat model.
            files: Whether both checkpoints are looked into, except for their weights.

        Raises:
            ImportError: torch, transformers or torchvision is not installed.
            ModelError: It cannot.
        """
        if not isinstance(draft, ChatTransformers):
            raise ModelError(
                f"{type(draft).__name__} cannot draft for {self.model!r}: a draft has to be a "
                "ChatTransformers, too."
            )
        if files:
            check_draft_files(self._spec(), draft._spec())

    def clear_prefix_cache(self) -> None:
        """Evict the KV caches of earlier prompts, for all instances that share the model.

        Preprocessed images are evicted too, for all models.
        """
        from .prompt import clear_prepared_images

        clear_prepared_images()
        engine = self._engine()
        engine.run(lambda _: engine.prefixes.clear()).result()

    def attention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        **options: Unpack[AttentionOptions],
    ) -> Attention:
        """Return the attention that a position of a prompt pays to a span of its last message.

        The pass runs between two tokens of the calls under way and stops at the highest wanted
        layer. It computes what no earlier prompt began with, and leaves every answer as it would
        have been. See `SupportsAttention` for its arguments and what it raises; `timeout` is the
        model's own by default.
        """
        return self._start_pass(messages, span, options).result()

    async def aattention(
        self,
        messages: Sequence[BaseMessage],
        span: tuple[int, int],
        **options: Unpack[AttentionOptions],
    ) -> Attention:
        """Return `attention` without blocking the event loop; a cancelled caller ends the pass."""
        call = await start_in_thread(self._start_pass, messages, span, options)
        return await call.aresult()

    def _start(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        on_chunk: Callable[[Chunk], object] | None,
        kwargs: Mapping[str, Any],
    ) -> LocalCall[Completion]:
        """Load the model if need be, and set it to work on the prompt."""
        from .engine import Request

        options = self._call_settings(_PER_CALL, stop, kwargs)
        model_name, timeout = options.pop("model"), options.pop("timeout")
        draft = options.pop("draft")
        settings = Settings(**options)
        if self.layers is not None:
            raise ModelError(
                f"{model_name!r} is loaded to {self.layers} layers, which give attention and no "
                "answers; leave `layers` out to have it answer."
            )
        engine = self._engine(model_name)
        drafts = None if draft is None else self._draft_engine(engine, draft, settings)
        started = time.monotonic()
        request = Request(
            *chat_turns(messages, self._load_image),
            settings,
            batch_size=self.batch_size,
            batch_tokens=self.batch_tokens,
            prefix_cache_bytes=self.prefix_cache_bytes,
            draft=None if drafts is None else (drafts, chat_turns(messages, draft._load_image)[1]),
            on_chunk=on_chunk,
        )
        engine.submit(request)
        return LocalCall(request.future, model_name, started, timeout, settings.logprobs)

    def _start_pass(
        self, messages: Sequence[BaseMessage], span: tuple[int, int], options: AttentionOptions
    ) -> LocalCall[Attention]:
        timeout = options.get("timeout")
        timeout = self.timeout if timeout is None else timeout
        check_timeout(timeout)
        layers = wanted_layers(options.get("layers"), self.count_layers(), self.model)
        if self.layers is not None and max(layers) > self.layers:
            raise ModelError(
                f"The model {self.model!r} is loaded to layer {self.layers}, and layer "
                f"{max(layers)} was asked for; raise `layers`."
            )
        engine = self._engine()
        started = time.monotonic()
        from .attention import Reading, read_attention

        wanted = Reading(
            *chat_turns(messages, self._load_image),
            span,
            layers,
            options.get("query", -1),
            heads=options.get("heads", False),
            prefix_cache_bytes=self.prefix_cache_bytes,
            started=started,
        )
        return LocalCall(
            engine.run(partial(read_attention, engine, wanted)), self.model, started, timeout
        )

    def _draft_engine(
        self, engine: "Engine", draft: "ChatTransformers", settings: Settings
    ) -> "Engine":
        """Return the draft's engine, loaded if need be, once it is known to fit.

        Raises:
            ModelError: It does not, or the call draws its tokens.
        """
        from .speculation import check_engines

        if settings.temperature > 0:
            raise ModelError("A draft serves greedy decoding only; set temperature to 0.")
        self.check_draft(draft)
        found = draft._engine()
        check_engines(engine, found)
        return found

    def _engine(self, model: str | None = None) -> "Engine":
        if self.layers is not None and self.layers > self.count_layers():
            raise ModelError(
                f"The model {self.model!r} has {self.count_layers()} layers and {self.layers} were "
                "asked for; lower `layers`."
            )
        return get_engine(self._spec(model))

    def _spec(self, model: str | None = None) -> ModelSpec:
        return ModelSpec(
            model=model_weights(model or self.model),
            revision=self.revision,
            dtype=self.dtype,
            device=self.device,
            attention=self.attn_implementation,
            threads=self.threads,
            layers=self.layers,
        )
