"""`ChatTransformers`: any vision-language checkpoint of transformers as a LangChain chat model."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables.config import RunnableConfig
from pydantic import Field

from .attention import Attention
from .attention_reader import AttentionReader, AttentionRequest
from .chat_format import chat_turns
from .completion import Piece, Settings
from .errors import ModelError
from .local_call import LocalCall
from .local_chat import LocalChat
from .stop_signal import current_stop_signal
from .transformers.batching import aanswer_all, answer_all, current_seat, taking_seat
from .transformers.loaded_models import check_draft, get_engine, layer_count, release_engine
from .transformers.model_spec import ModelSpec
from .transformers.rows import Row, Sharing
from .wanted_layers import Layers, wanted_layers
from .weights import model_weights

if TYPE_CHECKING:
    from .transformers.engine import Engine

__all__ = ["ChatTransformers", "ModelError"]

_PER_CALL = (
    "model", "draft", "max_tokens", "temperature", "seed", "logprobs", "top_logprobs", "timeout",
)  # fmt: skip


class ChatTransformers(LocalChat):
    """A local vision-language model, run with transformers.

    Takes any checkpoint that `AutoModelForImageTextToText` loads, with images in any form that
    `images.block_image` reads. The weights load at the first call or by `load`, once a process:
    instances that ask for the same model share it.

    Example:
        >>> model = ChatTransformers(model="Qwen/Qwen3-VL-2B-Instruct", dtype="bfloat16")
        >>> model.invoke([HumanMessage([image_block("cat.png"), {"type": "text", "text": "Who?"}])])

    Attributes (besides those of every `LocalChat`; a call may also have its own `model=`):
        attn_implementation: Attention implementation of transformers (sdpa, eager, ...), None for
            its choice.
        threads: CPU threads of this model. None: one for models of fewer than 50 million parameters
            (more would mostly wait for each other), torch's own number for others.
        batch_size: How many calls go through the model at once, padded on the left: those of one
            `batch` or `abatch` (`max_concurrency` in the config lowers it there), and any that are
            made at the same time. In float32 the outputs are those of single calls.
        batch_tokens: Tokens that such a batch may have, padding and outputs included.
        prefix_cache_bytes: Memory for the keys and values of earlier prompts. A prompt that begins
            like one of them, pictures included, computes only the rest, with the same output.
            None takes an eighth of the memory that is free once the model is loaded; 0 turns it
            off. Of instances that share a model, each keeps it below its own bound as it stores.
        draft: A faster model with the same tokenizer, which writes ahead (speculative decoding).
            The output is the one without it, at temperature 0; `response_metadata` says how many
            tokens the draft wrote (`drafted_tokens`) and how many are in the output
            (`accepted_tokens`). Such calls go through the model one by one, and compute their
            prompts anew. Per call: `draft=`.
    """

    provider: ClassVar[str] = "transformers"
    listens_to_stop_signal: ClassVar[bool] = True
    """Whether calls end early when a `StopSignal` asks them to."""

    attn_implementation: str | None = None
    threads: int | None = Field(default=None, gt=0)
    batch_size: int = Field(default=32, gt=0)
    batch_tokens: int = Field(default=32_768, gt=0)
    prefix_cache_bytes: int | None = Field(default=None, ge=0)
    draft: "ChatTransformers | None" = None

    def load(self) -> "ChatTransformers":
        """Load the weights now instead of at the first call; returns the model itself.

        Raises:
            ImportError: torch, transformers or torchvision is not installed.
            ModelError: The model cannot be loaded.
        """
        self._engine()
        return self

    def unload(self) -> None:
        """Free the weights, for all instances that share them; the next call loads them again."""
        release_engine(self._spec())

    def count_layers(self) -> int:
        """Layers of the language model; nothing is loaded for it.

        Raises:
            ImportError: torch, transformers or torchvision is not installed.
            ModelError: There is no such model, or its attention cannot be read.
        """
        return layer_count(self._spec())

    def check_draft(self, draft: object, *, files: bool = False) -> None:
        """Refuse what is not run with transformers, too, or else cannot write ahead.

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
            check_draft(self._spec(), draft._spec())

    def forget_prefixes(self) -> None:
        """Free the keys and values of earlier prompts, for all instances that share the model."""
        self._engine().forget_prefixes()

    def batch(
        self,
        inputs: list[LanguageModelInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[AIMessage]:
        """Answer several inputs, `batch_size` at a time in one padded batch.

        Args:
            inputs: As for `invoke`.
            config: One for all, or one an input.
            return_exceptions: Whether an input that fails yields its exception instead of raising
                it. The others of its batch are answered either way.
            **kwargs: As for `invoke`.
        """
        return answer_all(
            lambda item, config: self.invoke(item, config, **kwargs),
            inputs,
            config,
            self.batch_size,
            return_exceptions=return_exceptions,
        )

    async def abatch(
        self,
        inputs: list[LanguageModelInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[AIMessage]:
        """Like `batch`, without blocking the event loop."""
        return await aanswer_all(
            lambda item, config: self.ainvoke(item, config, **kwargs),
            inputs,
            config,
            self.batch_size,
            return_exceptions=return_exceptions,
        )

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

        The pass runs between two tokens of the calls under way and stops at the highest wanted
        layer. It computes what no earlier prompt began with, and leaves every answer as it would
        have been. See `GivesAttention` for what it takes; `timeout` is the model's own by default.

        Raises:
            ModelError: No such stretch, layer or query, a chat template or a model whose attention
                cannot be told, or the pass failed.
            ContextLengthError: The prompt is longer than the model's context.
            CallTimeoutError: It took longer than its timeout.
            ImportError: torch, transformers or torchvision is not installed.
        """
        request = AttentionRequest(messages, span, layers, query, heads, timeout)
        return self._attention_reader().read(request)

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
        return await self._attention_reader().aread(request)

    # What LangChain runs between the callbacks of a call's start and of its end, streamed or not.
    def _generate_with_cache(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with taking_seat(run_manager.run_id if run_manager else None):
            return super()._generate_with_cache(messages, stop, run_manager, **kwargs)

    async def _agenerate_with_cache(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with taking_seat(run_manager.run_id if run_manager else None):
            return await super()._agenerate_with_cache(messages, stop, run_manager, **kwargs)

    def _start(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        on_piece: Callable[[Piece], object] | None,
        kwargs: Mapping[str, Any],
    ) -> LocalCall:
        """Load the model if need be, prepare the prompt, and set the model to work."""
        options = self._call_settings(_PER_CALL, stop, kwargs)
        model_name, timeout = options.pop("model"), options.pop("timeout")
        drafts = options.pop("draft")
        settings = Settings(**options)
        engine = self._engine(model_name)
        writes_ahead = None if drafts is None else self._draft_engine(engine, drafts, settings)
        started = time.monotonic()
        arrived = engine.announce()
        try:
            prompt = engine.encode(*chat_turns(messages, self._load_image))
            draft = None
            if writes_ahead is not None:
                draft = writes_ahead.draft(*chat_turns(messages, drafts._load_image))
            row = Row(
                prompt,
                limit=min(settings.max_tokens, prompt.room),
                settings=settings,
                sharing=Sharing(
                    self.batch_size if draft is None else 1,
                    self.batch_tokens,
                    self.prefix_cache_bytes,
                ),
                decode=engine.decode,
                on_piece=on_piece,
                draft=draft,
            )
            signal = current_stop_signal()
            if signal is not None:
                signal.listen(row.stop)
            seat = current_seat.get()
            if seat is None:
                engine.submit([row])
            else:
                seat.join(row, engine.submit)
        finally:
            arrived()
        return LocalCall(row.future, model_name, started, timeout, settings.logprobs)

    def _attention_reader(self) -> AttentionReader:
        def engine(layers: Layers) -> "tuple[Engine, tuple[int, ...]]":
            loaded = self._engine()
            return loaded, wanted_layers(layers, loaded.count_layers(), self.model)

        return AttentionReader(
            model_name=self.model,
            engine=engine,
            load_image=self._load_image,
            timeout=self.timeout,
            prefix_cache_bytes=self.prefix_cache_bytes,
        )

    def _draft_engine(
        self, engine: "Engine", draft: "ChatTransformers", settings: Settings
    ) -> "Engine":
        """The draft, loaded if need be, once it is known to fit.

        Raises:
            ModelError: It does not, or the call draws its tokens.
        """
        if settings.temperature > 0:
            raise ModelError("A draft serves greedy decoding only; set temperature to 0.")
        self.check_draft(draft)
        found = draft._engine()
        engine.check_draft(found)
        return found

    def _engine(self, model: str | None = None) -> "Engine":
        return get_engine(self._spec(model))

    def _spec(self, model: str | None = None) -> ModelSpec:
        return ModelSpec(
            model=model_weights(model or self.model),
            revision=self.revision,
            dtype=self.dtype,
            device=self.device,
            attention=self.attn_implementation,
            threads=self.threads,
        )
