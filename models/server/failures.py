"""What went wrong between this process and a server, in one sentence that says what to do."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import openai

from ..errors import ContextLengthError, ModelError, UnreachableError
from .api_key import NO_KEY
from .context_length import Overflow, read_overflow
from .secrets import body_without_key, without_key

_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of whom.

    Attributes:
        address: The server's address.
        model: The name that was asked for.
        key: The API key, to keep it out of messages.
        pictures: How many pictures the prompt holds.
        begun: Whether a part of the answer had arrived.
    """

    address: str
    model: str
    key: str
    pictures: int = 0
    begun: bool = False


def explain(error: Exception, asked: Asked, served: Sequence[str] | None = None) -> Exception:
    """The error that a caller gets.

    Args:
        error: What the client raised.
        asked: What was asked.
        served: Names of the models that the server has; None if it does not say.

    Returns:
        A `ModelError`; `error` itself if the call was wrong before anything was sent.
    """
    hide_key(error, asked.key)
    server = f"The server at {asked.address}"
    said = _said(error)
    overflow = read_overflow(said) if isinstance(error, openai.APIError) else None
    if overflow:
        return _too_long(asked, overflow, said)
    match error:
        case openai.APIConnectionError():
            return _connection(error, asked)
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            sent = "wants an API key" if asked.key == NO_KEY else "refuses the API key"
            return ModelError(
                f"{server} {sent} (status {error.status_code}); put the right one into the "
                "environment variable $VLLM_API_KEY, or into the one that the pair file's "
                "api_key_env names, or give it as api_key."
            )
        case openai.NotFoundError():
            return _not_found(asked, served)
        case openai.RateLimitError():
            return UnreachableError(
                f"{server} has too much to do (status 429: {said}); ask it less at once, or raise "
                "the number of retries."
            )
        case openai.InternalServerError():
            return UnreachableError(
                f"{server} has a failure of its own (status {error.status_code}: {said}); see its "
                "log, or raise the number of retries."
            )
        case openai.APIStatusError():
            return ModelError(_refused(error.status_code, said, asked))
        case openai.APIResponseValidationError() | json.JSONDecodeError():
            return no_completion(asked, said)
        case openai.APIError():  # an event of a stream
            return UnreachableError(f"{server} broke off its answer ({said}); see its log.")
    if type(error).__module__.partition(".")[0].startswith("http"):  # httpx, or what is below it
        return _connection(error, asked)
    return _unforeseen(error, said, asked)


def _unforeseen(error: Exception, said: str, asked: Asked) -> Exception:
    """The error for what neither the client nor the server calls one."""
    match error:
        case openai.OpenAIError():  # an answer that was to have a certain form
            return ModelError(
                f"The server at {asked.address} gave an answer that cannot be used ({said}); raise "
                "max_tokens, or change what is asked."
            )
        case UnicodeEncodeError():
            return ModelError(
                f"The request to {asked.model!r} holds half a character "
                f"({error.object[error.start]!a}): its text was decoded wrongly, so read it as "
                "UTF-8."
            )
        case TypeError() if "unexpected keyword argument" in said:
            return error
    return no_completion(asked, f"{type(error).__name__}: {said}")


def hide_key(error: Exception, key: str) -> None:
    """Take a key that the server repeated out of an error and its causes.

    Args:
        error: The error; it is changed.
        key: The key.
    """
    for cause in _causes(error):
        cause.args = tuple(
            without_key(arg, key) if isinstance(arg, str) else arg for arg in cause.args
        )
        if isinstance(cause, openai.APIError):
            cause.message = without_key(cause.message, key)
            cause.body = body_without_key(cause.body, key)


def no_completion(asked: Asked, found: str) -> ModelError:
    """The error for an answer that is none.

    Args:
        asked: What was asked.
        found: What came instead.
    """
    return ModelError(
        f"The server at {asked.address} answered with something that is no chat completion "
        f"({_shortened(found, asked.key)}); give the address of an OpenAI-compatible API, which "
        "usually ends in /v1."
    )


def broke_off(asked: Asked) -> UnreachableError:
    """The error for an answer without an end."""
    return UnreachableError(
        f"The server at {asked.address} broke off its answer before the end; see its log: it may "
        "have ended or been restarted."
    )


def unknown_model(asked: Asked, served: Sequence[str]) -> ModelError:
    """The error for a model that the server does not have."""
    names = ", ".join(map(repr, served)) or "none at all"
    return ModelError(
        f"The server at {asked.address} has no model {asked.model!r}; set `model` to one that it "
        f"has: {names}."
    )


def _too_long(asked: Asked, overflow: Overflow, said: str) -> ContextLengthError:
    has = f"has {overflow.length} tokens" if overflow.length else "is too long"
    takes = f"takes at most {overflow.limit}" if overflow.limit else f"does not take it ({said})"
    return ContextLengthError(
        f"The prompt {has} and {asked.model!r} on the server at {asked.address} {takes}, answer "
        "included; shorten it, or set max_pixels to shrink the images.",
        limit=overflow.limit,
        length=overflow.length,
    )


def _not_found(asked: Asked, served: Sequence[str] | None) -> ModelError:
    if served is not None and asked.model not in served:
        return unknown_model(asked, served)
    return ModelError(
        f"There is no OpenAI-compatible API at {asked.address} (status 404); its address usually "
        "ends in /v1."
    )


def _connection(error: Exception, asked: Asked) -> ModelError:
    names = {type(cause).__name__ for cause in _causes(error)}  # httpx's, of either major version
    if "ReadTimeout" in names:
        return UnreachableError(
            f"The server at {asked.address} does not answer; see its log, or whether something "
            "else listens there."
        )
    if asked.begun or not names & {"ConnectError", "ConnectTimeout", "ProxyError"}:
        return broke_off(asked)
    if "ConnectTimeout" in names:
        reason = "no connection in time"
    else:
        reason = _shortened(str([*_causes(error)][-1]), asked.key) or "no connection"
    return UnreachableError(
        f"The server at {asked.address} cannot be reached ({reason}); start it, or correct its "
        "address."
    )


def _refused(status: int, said: str, asked: Asked) -> str:
    words = said.lower()
    about_pictures = any(word in words for word in ("image", "multimodal", "multi-modal"))
    if status == 413:
        advice = "shorten the prompt, or set max_pixels to shrink the images"
    elif asked.pictures and about_pictures:
        advice = (
            f"the prompt holds {asked.pictures} of them: serve a model that reads images, and "
            "allow as many in one prompt (vLLM: --limit-mm-per-prompt)"
        )
    else:
        advice = "change what it names"
    return (
        f"The server at {asked.address} refuses the request to {asked.model!r} (status {status}: "
        f"{said}); {advice}."
    )


def _said(error: Exception) -> str:
    """The server's own words, in one line."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    text = str(body or getattr(error, "message", None) or error)
    return _shortened(text, "")


def _shortened(text: str, key: str) -> str:
    if "<html" in text[:1000].lower() or "<!doctype" in text[:1000].lower():
        return "a web page"
    line = " ".join(without_key(text, key).split()).rstrip(".")
    return line if len(line) <= _QUOTED else line[: _QUOTED - 3] + "..."


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it, the first cause last."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
