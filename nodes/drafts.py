"""Speculative decoding: one agent's model writes ahead of the other's, where backends have that."""

from dataclasses import replace

from ..configs import ConfigError
from ..models.capabilities import SupportsDraft
from ..models.errors import ModelError
from .chat_models import ChatModel, chat_models
from .model_call import Agent


def with_draft(agent: Agent, draft: Agent) -> Agent:
    """An agent for whose model another one's writes ahead: the same outputs, found otherwise.

    Raises:
        ConfigError: The two models cannot do that.
    """
    if reason := why_no_draft(agent.model, draft.model):
        raise ConfigError(reason)
    (model,) = chat_models(draft.model)
    return replace(agent, draft=model)


def why_no_draft(model: ChatModel, draft: ChatModel, *, files: bool = False) -> str | None:
    """Why one model cannot draft for another one, in one sentence; None if it can.

    Args:
        model: Whose output is wanted, also in LangChain's wrappers.
        draft: What is to write ahead. Its wrappers play no part.
        files: Whether what is stored of both may be read, except for their weights.
    """
    drafts = chat_models(draft)
    if len(drafts) != 1:
        return "Speculative decoding needs one draft, not a model with fallbacks."
    for target in chat_models(model):
        if not isinstance(target, SupportsDraft):
            because = getattr(type(target), "no_draft_because", "")
            return (
                "Speculative decoding needs a large model that takes a draft, such as a "
                f"ChatTransformers; {type(target).__name__} takes none"
                f"{f', because {because}' if because else ''}."
            )
        try:
            target.check_draft(drafts[0], files=files)
        except ModelError as error:
            return str(error)
    return None
