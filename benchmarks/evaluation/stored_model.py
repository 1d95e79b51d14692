"""A chat model whose calls are stored: the same call is answered from the store.

Nodes and graphs take it like the model itself, so a strategy over stored calls is the strategy's
own graph.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import PrivateAttr
from typing_extensions import override

from ...models.capabilities import SupportsAttention
from .call_seconds import tell_seconds
from .model_identity import model_identity
from .shared_calls import KeepsCalls


class StoredModel(  # type: ignore[no-redef]  # mypy: the base has a field named kwargs
    RunnableBindingBase[LanguageModelInput, AIMessage]
):
    """A chat model that looks into a store first, and puts there what it answers.

    Equal calls that run at the same time are one call. A call that failed is not made again by
    this object: whoever asks for it gets the same error, so that all strategies of a run see the
    same.
    """

    _calls: KeepsCalls = PrivateAttr()
    _role: str = PrivateAttr()
    _identity: dict[str, Any] = PrivateAttr()
    _running: "dict[str, asyncio.Task[_Outcome]]" = PrivateAttr(default_factory=dict)
    _failed: dict[str, Exception] = PrivateAttr(default_factory=dict)
    _drafts: dict[int, tuple[BaseChatModel, dict[str, Any]]] = PrivateAttr(default_factory=dict)
    _made: int = PrivateAttr(default=0)
    _attention: SupportsAttention | None = PrivateAttr()

    def __init__(
        self,
        model: BaseChatModel,
        calls: KeepsCalls,
        role: str,
        identity: dict[str, Any] | None = None,
        attention: SupportsAttention | None = None,
    ) -> None:
        """Wrap a model.

        Args:
            model: Who answers what is not stored.
            calls: Where the calls are.
            role: The model's role, noted with its calls.
            identity: What `model_identity` says of the model, if that is known already.
            attention: Gives its attention, if it gives any.
        """
        super().__init__(bound=model)
        self._attention = attention
        self._calls = calls
        self._role = role
        self._identity = model_identity(model) if identity is None else identity

    @property
    def made(self) -> int:
        """Calls that the model itself was asked for, failed ones included."""
        return self._made

    @property
    def attention(self) -> Any:
        """As `SupportsAttention` says.

        Raises:
            AttributeError: The model gives no attention.
        """
        return self._gives_attention().attention

    @property
    def aattention(self) -> Any:
        """As `SupportsAttention` says.

        Raises:
            AttributeError: The model gives no attention.
        """
        return self._gives_attention().aattention

    def _gives_attention(self) -> SupportsAttention:
        if self._attention is None:
            raise AttributeError("This model gives no attention.")
        return self._attention

    @override
    def invoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        """Evaluations run in an event loop: there is `ainvoke` alone.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("A stored model is asked with `ainvoke`.")

    @override
    async def ainvoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        key = await asyncio.to_thread(self._key, input, kwargs)
        style = _style(config)
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._outcome(key, style, input, config, kwargs))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))
        # One of those who wait may be cancelled; the call is for the others too.
        return self._give(await asyncio.shield(task), style)

    async def _outcome(
        self,
        key: str,
        style: str,
        prompt: LanguageModelInput,
        config: RunnableConfig | None,
        settings: Mapping[str, Any],
    ) -> "_Outcome":
        if key in self._failed:
            return _Outcome(error=self._failed[key])
        found = await self._calls.call(key)
        if found is not None:
            message, seconds = found
            return _Outcome(AIMessage.model_validate(message), seconds)
        return await self._make(key, style, prompt, config, settings)

    async def _make(
        self,
        key: str,
        style: str,
        prompt: LanguageModelInput,
        config: RunnableConfig | None,
        settings: Mapping[str, Any],
    ) -> "_Outcome":
        outcome, start = _Outcome(), time.perf_counter()
        try:
            outcome.message = await self.bound.ainvoke(prompt, config, **settings)
        except Exception as error:  # noqa: BLE001  raised again for everyone who waits
            outcome.error = error
        outcome.seconds = time.perf_counter() - start
        self._made += 1
        await self._keep(key, style, outcome)
        return outcome

    async def _keep(self, key: str, style: str, outcome: "_Outcome") -> None:
        if outcome.error is not None:
            self._failed[key] = outcome.error
        if isinstance(outcome.message, AIMessage):
            message = outcome.message.model_dump(mode="json", fallback=str)
            await self._calls.add_call(key, self._role, style, message, outcome.seconds)
        elif outcome.error is None or isinstance(outcome.error, ContextOverflowError):
            # A context that is too short is no failure yet: the run shortens the prompt.
            await self._calls.give_up(key)
        else:
            reason = " ".join(str(outcome.error).split()) or type(outcome.error).__name__
            await self._calls.add_failure(key, self._role, style, reason)

    def _give(self, outcome: "_Outcome", style: str) -> AIMessage:
        tell_seconds(self._role, style, outcome.seconds)
        if outcome.error is not None:
            raise outcome.error
        message: AIMessage = outcome.message
        return message

    def _draft_identity(self, draft: BaseChatModel) -> dict[str, Any]:
        """What tells a draft from others; its weights are read once."""
        if id(draft) not in self._drafts:
            # Kept with it, so that no other model comes to have its id.
            self._drafts[id(draft)] = (draft, model_identity(draft))
        return self._drafts[id(draft)][1]

    def _key(self, prompt: LanguageModelInput, settings: Mapping[str, Any]) -> str:
        """The model, every byte of the prompt with its images, and the settings, hashed."""
        own = {name: value for name, value in settings.items() if name != "timeout"}
        if isinstance(draft := own.get("draft"), BaseChatModel):
            own["draft"] = self._draft_identity(draft)
        content = [self._identity, _content(prompt), own]
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


class _Outcome:
    """What came of a call: a message, or an error."""

    def __init__(
        self, message: Any = None, seconds: float = 0.0, error: Exception | None = None
    ) -> None:
        self.message = message
        self.seconds = seconds
        self.error = error


def _content(prompt: LanguageModelInput) -> Any:
    if isinstance(prompt, str):
        return prompt
    messages: Sequence[Any] = prompt.to_messages() if hasattr(prompt, "to_messages") else prompt
    return [
        [message.type, message.content] if isinstance(message, BaseMessage) else message
        for message in messages
    ]


def _style(config: RunnableConfig | None) -> str:
    return str(((config or {}).get("metadata") or {}).get("mai_style", ""))
