"""A chat model whose calls are stored: the same call is answered from the store.

Nodes and graphs take it like the model itself, so a strategy over stored calls is the strategy's
own graph.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import PrivateAttr
from typing_extensions import override

from .call_store import KeepsCalls
from .model_identity import model_identity

Seconds = dict[tuple[str, str], float]

call_seconds: ContextVar[Seconds | None] = ContextVar("call_seconds", default=None)
"""Where a run wants to be told how long its calls took when they were made, by role and style."""


class StoredModel(  # type: ignore[no-redef]  # mypy: the base has a field named kwargs
    RunnableBindingBase[LanguageModelInput, AIMessage]
):
    """A chat model that looks into a store first, and puts there what it answers.

    Equal calls that run at the same time are one call. A call that failed is not made again by
    this object: whoever asks for it gets the same error, so that all strategies of a run see the
    same.
    """

    _store: KeepsCalls = PrivateAttr()
    _role: str = PrivateAttr()
    _identity: dict[str, Any] = PrivateAttr()
    _running: "dict[str, asyncio.Task[_Outcome]]" = PrivateAttr(default_factory=dict)
    _failed: dict[str, Exception] = PrivateAttr(default_factory=dict)
    _drafts: dict[int, tuple[BaseChatModel, dict[str, Any]]] = PrivateAttr(default_factory=dict)
    _made: int = PrivateAttr(default=0)

    def __init__(
        self,
        model: BaseChatModel,
        store: KeepsCalls,
        role: str,
        identity: dict[str, Any] | None = None,
    ) -> None:
        """Wrap a model.

        Args:
            model: Who answers what is not stored.
            store: Where the calls are.
            role: The model's role, noted with its calls.
            identity: What `model_identity` says of the model, if that is known already.
        """
        super().__init__(bound=model)
        self._store = store
        self._role = role
        self._identity = model_identity(model) if identity is None else identity

    @property
    def made(self) -> int:
        """Calls that the model itself was asked for, failed ones included."""
        return self._made

    @override
    def invoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        key, style = self._key(input, kwargs), _style(config)
        outcome = self._stored(key)
        if outcome is None:
            outcome, start = _Outcome(), time.perf_counter()
            try:
                outcome.message = self.bound.invoke(input, config, **kwargs)
            except Exception as error:  # noqa: BLE001  raised again below, for everyone who asks
                outcome.error = error
            self._keep(key, style, outcome, time.perf_counter() - start)
        return self._give(outcome, style)

    @override
    async def ainvoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        key = await asyncio.to_thread(self._key, input, kwargs)
        style = _style(config)
        outcome = self._stored(key)
        if outcome is None:
            task = self._running.get(key)
            if task is None:
                task = asyncio.create_task(self._make(key, style, input, config, kwargs))
                self._running[key] = task
                task.add_done_callback(lambda _: self._running.pop(key))
            # One of those who wait may be cancelled; the call is for the others too.
            outcome = await asyncio.shield(task)
        return self._give(outcome, style)

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
        self._keep(key, style, outcome, time.perf_counter() - start)
        return outcome

    def _stored(self, key: str) -> "_Outcome | None":
        if key in self._failed:
            return _Outcome(error=self._failed[key])
        found = self._store.call(key)
        if found is None:
            return None
        message, seconds = found
        return _Outcome(AIMessage.model_validate(message), seconds)

    def _keep(self, key: str, style: str, outcome: "_Outcome", seconds: float) -> None:
        self._made += 1
        outcome.seconds = seconds
        if isinstance(outcome.message, AIMessage):
            message = outcome.message.model_dump(mode="json", fallback=str)
            self._store.add_call(key, self._role, style, message, seconds)
        elif outcome.error is not None:
            self._failed[key] = outcome.error
            # A context that is too short is no failure yet: the run shortens the prompt.
            if not isinstance(outcome.error, ContextOverflowError):
                reason = " ".join(str(outcome.error).split()) or type(outcome.error).__name__
                self._store.add_failure(key, self._role, style, reason)

    def _give(self, outcome: "_Outcome", style: str) -> AIMessage:
        told = call_seconds.get()
        if told is not None:  # a shortened prompt is asked several times; the run counts them all
            told[self._role, style] = told.get((self._role, style), 0.0) + outcome.seconds
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
