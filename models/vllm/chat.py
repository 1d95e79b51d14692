"""`ChatVLLM`: a vision-language checkpoint in a vLLM engine of this process."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.messages import BaseMessage
from pydantic import Field

from ..chat_format import chat_turns
from ..completion import Chunk, Completion, Settings
from ..local_chat import LocalCall, LocalChat, model_weights
from .engine import get_engine, release_engine, running_engine
from .engine_args import EngineSpec, options_json

if TYPE_CHECKING:
    from .engine import Engine

_PER_CALL = ("max_tokens", "temperature", "seed", "logprobs", "top_logprobs", "timeout")


class ChatVLLM(LocalChat):
    """A local vision-language model, run by vLLM.

    Concurrent calls, from any thread or event loop, are batched by the engine, and its prefix cache
    keeps what prompts have in common. The engine starts at the first call or by `load`, once per
    process: instances that ask for the same model with the same options share it. It runs in
    processes of its own, which end with this one; scripts need the usual
    `if __name__ == "__main__":` around their work.

    Example:
        >>> model = ChatVLLM(model="Qwen/Qwen3-VL-8B-Instruct", memory=0.6)
        >>> image = load_image("cat.png").block
        >>> model.invoke([HumanMessage([image, {"type": "text", "text": "Who?"}])])

    Attributes (besides those of every `LocalChat`):
        memory: Share of the GPU's memory that the engine takes, for weights and KV cache. The
            shares of all engines on one GPU must not exceed 1.
        max_images: Images that one prompt may hold; vLLM reserves memory for them.
        engine: Engine options by vLLM's own names. Some that matter: `max_model_len` (default: what
            fits), `tensor_parallel_size`, `max_num_seqs`, `quantization`, `enforce_eager`,
            `speculative_config`.
    """

    provider: ClassVar[str] = "vllm"
    supports_schema: ClassVar[bool] = True
    no_draft_because: ClassVar[str] = "vLLM shows drafts no images"
    """Why its calls take no `draft=`."""

    memory: float = Field(default=0.9, gt=0, le=1)
    max_images: int = Field(default=8, gt=0)
    engine: dict[str, Any] = Field(default_factory=dict)

    def load(self) -> "ChatVLLM":
        """Start the engine now instead of at the first call; return the model itself.

        Raises:
            ModelError: vLLM is not installed, or the engine cannot be started or has no such
                option. Notes of the error show the last lines of vLLM's log.
        """
        self._engine()
        return self

    def unload(self) -> None:
        """End the engine, for all instances that share it; the next call starts it again."""
        release_engine(self._spec())

    def clear_prefix_cache(self) -> None:
        """Drop what the engine keeps of earlier prompts, if it runs."""

        async def clear(llm: Any) -> None:
            await llm.reset_prefix_cache()
            await llm.reset_mm_cache()

        if engine := running_engine(self._spec()):
            engine.run(clear).result()

    def _start(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        on_chunk: Callable[[Chunk], object] | None,
        kwargs: Mapping[str, Any],
    ) -> LocalCall[Completion]:
        """Start the engine if need be, and submit the prompt."""
        options = self._call_settings(_PER_CALL, stop, kwargs)
        timeout = options.pop("timeout")
        settings = Settings(**options)
        engine = self._engine()
        started = time.monotonic()
        turns, images = chat_turns(messages, self._load_image)
        future = engine.submit(turns, images, settings, on_chunk)
        return LocalCall(future, self.model, started, timeout, settings.logprobs)

    def _engine(self) -> "Engine":
        return get_engine(self._spec())

    def _spec(self) -> EngineSpec:
        return EngineSpec(
            model=model_weights(self.model),
            revision=self.revision,
            dtype=self.dtype,
            device=self.device,
            memory=self.memory,
            max_images=self.max_images,
            options=options_json(self.engine),
        )
