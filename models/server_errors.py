"""One call to a server: its time limit, and one sentence for whatever goes wrong in it."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import openai
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration

from .errors import CallTimeoutError, ModelError, UnreachableError, read_overflow
from .images import ImageError, is_image_block

NO_KEY = "none"
"""Sent to servers that want no key: the protocol has no way to send none."""

_QUOTED = 300


@dataclass(slots=True)
class ServerCall:
    """What is requested of whom, and what has come of it.

    Attributes:
        address: The server's address.
        model: The name of the model.
        key: The API key, to keep it out of messages.
        messages: The prompt.
        settings: Settings of the call, by the server's names.
        max_tokens: How long the answer may be; None for as long as the context takes.
        timeout: Seconds that the call may take; None for no limit.
        begun: Whether a part of the answer has arrived.
        answered: Whether that has content, and not only an end.
        finish_reason: How the answer ended, in the server's words; None for not yet.
        refusal: Why the model refuses, in its own words.
        started: When it began, on the monotonic clock.
    """

    address: str
    model: str
    key: str
    messages: Sequence[BaseMessage]
    settings: dict[str, Any]
    max_tokens: int | None
    timeout: float | None
    begun: bool = False
    answered: bool = False
    finish_reason: str | None = None
    refusal: str = ""
    started: float = field(default_factory=time.monotonic)

    @property
    def images(self) -> int:
        """How many images the prompt holds."""
        contents = (one.content for one in self.messages if not isinstance(one.content, str))
        return sum(is_image_block(block) for content in contents for block in content)

    def add(self, generation: ChatGeneration) -> None:
        """Note what has arrived: an answer, or a chunk of it."""
        message = generation.message
        calls = getattr(message, "tool_call_chunks", None) or getattr(message, "tool_calls", None)
        self.begun = True
        self.answered = self.answered or bool(message.content or calls)
        finish_reason = (generation.generation_info or {}).get("finish_reason")
        self.finish_reason = finish_reason or self.finish_reason
        self.refusal += message.additional_kwargs.get("refusal") or ""

    def check_answered(self) -> None:
        """Raise `ModelError` where nothing came, or the server or the model refuses to answer."""
        if not self.begun:
            raise self.no_completion("it holds no answer")
        if not self.answered and (self.refusal or self.finish_reason == "content_filter"):
            reason = f"refusal: {self.quoted(self.refusal)}" if self.refusal else "content_filter"
            raise ModelError(
                f"The model {self.model!r} on the server at {self.address} gave no answer "
                f"({reason}); change the question or the image."
            )

    def adapt(self, error: openai.APIError) -> None:
        """Request what the server can give, if it refused something that the answer can do without.

        A shorter answer, if the answer alone did not fit, and no log-probabilities from servers
        that know none. Any other error is raised.
        """
        refused = isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError)
        if refused and "logprob" in str(error) and self.settings.pop("logprobs", None):
            self.settings.pop("top_logprobs", None)
            return
        overflow = None if self.begun else read_overflow(str(error))
        shorter = overflow and overflow.shorter(self.max_tokens)
        if not shorter:
            raise error
        self.max_tokens = self.settings["max_tokens"] = shorter

    def check_may_be_cut(self, error: openai.LengthFinishReasonError) -> None:
        """Raise the error where an object broke off at its limit, and the caller wants it parsed.

        It does where it gave a class, and not a schema.
        """
        if isinstance(self.settings.get("response_format"), type):
            raise error

    @asynccontextmanager
    async def explained(
        self, served: "Callable[[ServerCall], Awaitable[list[str]]] | None" = None
    ) -> AsyncIterator[None]:
        """Stay within the call's time, and have one sentence for whatever goes wrong.

        `served` asks the server for its models, where a model is not found.
        """
        left = None if self.timeout is None else self.started + self.timeout - time.monotonic()
        limit = asyncio.timeout(left)
        try:
            async with limit:
                try:
                    yield
                except Exception as error:  # noqa: BLE001  whatever it is, it is explained
                    names = None
                    if served and isinstance(error, openai.NotFoundError):
                        with suppress(Exception):  # the first error is the one that counts
                            names = await served(self)
                    explained = self.explain(error, names)
                    cause = error.__cause__ if explained is error else error
                    raise explained from (cause and self._without_key(cause))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise CallTimeoutError(
                f"The server at {self.address} did not finish its answer within the timeout of "
                f"{self.timeout:g} seconds; raise the timeout or lower max_tokens."
            ) from error

    def explain(self, error: Exception, served: Sequence[str] | None = None) -> Exception:
        """Return the error that a caller gets: `error` itself if nothing was sent yet.

        `served` are the models that the server has; None if it does not say.
        """
        body = getattr(error, "body", None)
        if isinstance(body, dict):
            body = body.get("message") or body.get("detail") or body
        quoted = self.quoted(str(body or getattr(error, "message", None) or error))
        server = f"The server at {self.address}"
        # httpx's errors, or those of what is below it.
        below = type(error).__module__.startswith("http")
        match error:
            case ModelError() | ImageError():
                return error
            case openai.APIError() if overflow := read_overflow(quoted):
                model = f"{self.model!r} on the server at {self.address}"
                return overflow.error(model, "shorten it, or set max_pixels to shrink the images")
            case openai.APIStatusError():
                return self._refused(error.status_code, quoted, served)
            case _ if below or isinstance(error, openai.APIConnectionError):
                return self._disconnected(error)
            case openai.APIResponseValidationError():
                return self.no_completion(quoted)
            case openai.APIError():  # an event of a stream
                return UnreachableError(f"{server} broke off its answer ({quoted}); see its log.")
            case openai.OpenAIError():  # an answer that was to have a certain form
                return ModelError(
                    f"{server} gave an answer that cannot be used ({quoted}); raise max_tokens, "
                    "or change what is requested."
                )
            case UnicodeEncodeError():
                return ModelError(
                    f"The request to {self.model!r} holds half a character "
                    f"({error.object[error.start]!a}): its text was decoded wrongly, so read it "
                    "as UTF-8."
                )
            case TypeError() if "unexpected keyword argument" in quoted:
                return error
        return self.no_completion(f"{type(error).__name__}: {quoted}")

    def no_completion(self, found: str) -> ModelError:
        """Return the error for an answer that is none; `found` is what came instead."""
        return ModelError(
            f"The server at {self.address} answered with something that is no chat completion "
            f"({self.quoted(found)}); give the address of an OpenAI-compatible API, which usually "
            "ends in /v1."
        )

    def broke_off(self) -> UnreachableError:
        """Return the error for an answer without an end."""
        return UnreachableError(
            f"The server at {self.address} broke off its answer before the end; see its log: it "
            "may have ended or been restarted."
        )

    def unknown_model(self, served: Sequence[str]) -> ModelError:
        """Return the error for a model that the server does not have."""
        names = ", ".join(map(repr, served)) or "none at all"
        return ModelError(
            f"The server at {self.address} has no model {self.model!r}; set `model` to one that it "
            f"has: {names}."
        )

    def quoted(self, text: str) -> str:
        """Return the beginning of what a server replied, in one line without the key."""
        if "<html" in text[:1000].lower() or "<!doctype" in text[:1000].lower():
            return "a web page"
        line = " ".join(self._hide_key(text).split()).rstrip(".")
        return line if len(line) <= _QUOTED else line[: _QUOTED - 3] + "..."

    def _refused(self, status: int, quoted: str, served: Sequence[str] | None) -> ModelError:
        server = f"The server at {self.address}"
        if status in {401, 403}:
            refuses = "wants an API key" if self.key == NO_KEY else "refuses the API key"
            return ModelError(
                f"{server} {refuses} (status {status}); put the right one into the environment "
                "variable that api_key_env names (usually $VLLM_API_KEY), or give it as api_key."
            )
        if status == 404 and served is not None and self.model not in served:
            return self.unknown_model(served)
        if status == 404:
            return ModelError(
                f"There is no OpenAI-compatible API at {self.address} (status 404); its address "
                "usually ends in /v1."
            )
        if status == 429:
            return UnreachableError(
                f"{server} has too much to do (status 429: {quoted}); send it fewer requests "
                "concurrently, or raise the number of retries."
            )
        if status >= 500:
            return UnreachableError(
                f"{server} has a failure of its own (status {status}: {quoted}); see its log, or "
                "raise the number of retries."
            )
        advice = "change what it names"
        if status == 413:
            advice = "shorten the prompt, or set max_pixels to shrink the images"
        elif self.images and re.search("image|multi-?modal", quoted, re.IGNORECASE):
            advice = (
                f"the prompt holds {self.images} of them: serve a model that reads images, and "
                "allow as many in one prompt (vLLM: --limit-mm-per-prompt)"
            )
        return ModelError(
            f"{server} refuses the request to {self.model!r} (status {status}: {quoted}); {advice}."
        )

    def _disconnected(self, error: Exception) -> ModelError:
        causes = list(_causes(error))
        names = {type(cause).__name__ for cause in causes}  # httpx's, of either major version
        if "ReadTimeout" in names:
            return UnreachableError(
                f"The server at {self.address} does not answer; see its log, or whether something "
                "else listens there."
            )
        if self.begun or not names & {"ConnectError", "ConnectTimeout", "ProxyError"}:
            return self.broke_off()
        reason = "no connection in time"
        if "ConnectTimeout" not in names:
            reason = self.quoted(str(causes[-1])) or "no connection"
        return UnreachableError(
            f"The server at {self.address} cannot be reached ({reason}); start it, or correct its "
            "address."
        )

    def _hide_key(self, text: str) -> str:
        """Return a text with `***` for a key that the server repeats, also where it is escaped.

        Short keys occur in other words and numbers: they are hidden only after "Bearer".
        """
        if self.key == NO_KEY:
            return text
        before = "" if len(self.key) >= 8 else "(?<=Bearer )"
        for form in {self.key, repr(self.key)[1:-1], json.dumps(self.key)[1:-1]}:
            text = re.sub(before + re.escape(form), "***", text)
        return text

    def _without_key(self, error: BaseException) -> BaseException | None:
        """Return an error that may be the cause of another one; None if it shows the key."""
        shown = " ".join(f"{cause} {cause!r} {vars(cause)}" for cause in _causes(error))
        return error if self._hide_key(shown) == shown else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what led to it, the first cause last."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
