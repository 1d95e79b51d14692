"""What goes wrong between this process and a server, in one sentence that says what to do."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import openai

from .context_length import read_overflow
from .errors import ContextLengthError, ModelError, UnreachableError

NO_KEY = "none"
"""Sent to servers that want no key: the protocol has no way to send none."""

_QUOTED = 300
_LONG_KEY = 8


@dataclass(slots=True)
class Request:
    """What is requested of whom.

    Attributes:
        address: The server's address.
        model: The name of the model.
        key: The API key, to keep it out of messages.
        images: How many images the prompt holds.
        begun: Whether a part of the answer has arrived.
    """

    address: str
    model: str
    key: str
    images: int = 0
    begun: bool = False

    def without_key(self, text: str) -> str:
        """Return a text with `***` for a key that the server repeats, also where it is escaped.

        Short keys occur in other words and numbers: they are hidden only after "Bearer".
        """
        if self.key == NO_KEY:
            return text
        before = "" if len(self.key) >= _LONG_KEY else "(?<=Bearer )"
        for form in {self.key, repr(self.key)[1:-1], json.dumps(self.key)[1:-1]}:
            text = re.sub(before + re.escape(form), "***", text)
        return text

    def cause(self, error: BaseException) -> BaseException | None:
        """Return an error that may be the cause of another one; None if it shows the key."""
        shown = " ".join(f"{cause} {cause!r} {vars(cause)}" for cause in _causes(error))
        return error if self.without_key(shown) == shown else None


def explain(  # noqa: PLR0912  a case for each kind of error
    error: Exception, request: Request, served: Sequence[str] | None = None
) -> Exception:
    """Return the error that a caller gets.

    Args:
        error: What the client raised.
        request: What was requested.
        served: Names of the models that the server has; None if it does not say.

    Returns:
        A `ModelError`; `error` itself if the call was wrong before anything was sent.
    """
    if isinstance(error, ModelError):
        return error
    server = f"The server at {request.address}"
    quoted = _message(error, request)
    overflow = read_overflow(quoted) if isinstance(error, openai.APIError) else None
    if overflow:
        return ContextLengthError(
            overflow.sentence(
                f"{request.model!r} on the server at {request.address}",
                "shorten it, or set max_pixels to shrink the images",
                quoted,
            ),
            limit=overflow.limit,
            length=overflow.length,
        )
    match error:
        case openai.APIConnectionError():
            return _connection(error, request)
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            refuses = "wants an API key" if request.key == NO_KEY else "refuses the API key"
            return ModelError(
                f"{server} {refuses} (status {error.status_code}); put the right one into the "
                "environment variable that api_key_env names (usually $VLLM_API_KEY), or give it "
                "as api_key."
            )
        case openai.NotFoundError():
            if served is not None and request.model not in served:
                return unknown_model(request, served)
            return ModelError(
                f"There is no OpenAI-compatible API at {request.address} (status 404); its address "
                "usually ends in /v1."
            )
        case openai.RateLimitError():
            return UnreachableError(
                f"{server} has too much to do (status 429: {quoted}); send it fewer requests "
                "concurrently, or raise the number of retries."
            )
        case openai.InternalServerError():
            return UnreachableError(
                f"{server} has a failure of its own (status {error.status_code}: {quoted}); see "
                "its log, or raise the number of retries."
            )
        case openai.APIStatusError():
            return ModelError(_refused(error.status_code, quoted, request))
        case openai.APIResponseValidationError() | json.JSONDecodeError():
            return no_completion(request, quoted)
        case openai.APIError():  # an event of a stream
            return UnreachableError(f"{server} broke off its answer ({quoted}); see its log.")
        case openai.OpenAIError():  # an answer that was to have a certain form
            return ModelError(
                f"{server} gave an answer that cannot be used ({quoted}); raise max_tokens, or "
                "change what is requested."
            )
        case UnicodeEncodeError():
            return ModelError(
                f"The request to {request.model!r} holds half a character "
                f"({error.object[error.start]!a}): its text was decoded wrongly, so read it as "
                "UTF-8."
            )
        case TypeError() if "unexpected keyword argument" in quoted:
            return error
    if type(error).__module__.partition(".")[0].startswith("http"):  # httpx, or what is below it
        return _connection(error, request)
    return no_completion(request, f"{type(error).__name__}: {quoted}")


def no_completion(request: Request, found: str) -> ModelError:
    """Return the error for an answer that is none.

    Args:
        request: What was requested.
        found: What came instead.
    """
    return ModelError(
        f"The server at {request.address} answered with something that is no chat completion "
        f"({_shortened(found, request)}); give the address of an OpenAI-compatible API, which "
        "usually ends in /v1."
    )


def broke_off(request: Request) -> UnreachableError:
    """Return the error for an answer without an end."""
    return UnreachableError(
        f"The server at {request.address} broke off its answer before the end; see its log: it may "
        "have ended or been restarted."
    )


def unknown_model(request: Request, served: Sequence[str]) -> ModelError:
    """Return the error for a model that the server does not have."""
    names = ", ".join(map(repr, served)) or "none at all"
    return ModelError(
        f"The server at {request.address} has no model {request.model!r}; set `model` to one that "
        f"it has: {names}."
    )


def _connection(error: Exception, request: Request) -> ModelError:
    names = {type(cause).__name__ for cause in _causes(error)}  # httpx's, of either major version
    if "ReadTimeout" in names:
        return UnreachableError(
            f"The server at {request.address} does not answer; see its log, or whether something "
            "else listens there."
        )
    if request.begun or not names & {"ConnectError", "ConnectTimeout", "ProxyError"}:
        return broke_off(request)
    reason = "no connection in time"
    if "ConnectTimeout" not in names:
        reason = _shortened(str([*_causes(error)][-1]), request) or "no connection"
    return UnreachableError(
        f"The server at {request.address} cannot be reached ({reason}); start it, or correct its "
        "address."
    )


def _refused(status: int, quoted: str, request: Request) -> str:
    about_images = any(word in quoted.lower() for word in ("image", "multimodal", "multi-modal"))
    advice = "change what it names"
    if status == 413:
        advice = "shorten the prompt, or set max_pixels to shrink the images"
    elif request.images and about_images:
        advice = (
            f"the prompt holds {request.images} of them: serve a model that reads images, and "
            "allow as many in one prompt (vLLM: --limit-mm-per-prompt)"
        )
    return (
        f"The server at {request.address} refuses the request to {request.model!r} (status "
        f"{status}: {quoted}); {advice}."
    )


def _message(error: Exception, request: Request) -> str:
    """Return the server's own error message, in one line."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    return _shortened(str(body or getattr(error, "message", None) or error), request)


def _shortened(text: str, request: Request) -> str:
    if "<html" in text[:1000].lower() or "<!doctype" in text[:1000].lower():
        return "a web page"
    line = " ".join(request.without_key(text).split()).rstrip(".")
    return line if len(line) <= _QUOTED else line[: _QUOTED - 3] + "..."


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what led to it, the first cause last."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
