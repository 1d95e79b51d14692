"""A verifier that asks a model whether two answers say the same."""

from dataclasses import dataclass

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from ..answers import Answer, AnswerType, Verdict, agree, parse
from ..answers.answer import FREE_TEXT_OVERLAP
from .chat_models import ChatModel, check_chat_model, check_timeout
from .model_call import record
from .request import Reply, Request, asend, send
from .state import ModelCall, Task

_QUESTION = (
    "Two answers were given to this question.\n\nQuestion: {question}\n\nFirst answer: {first}\n\n"
    "Second answer: {second}\n\nDo both say the same? Answer with yes or no."
)

Judgement = tuple[Verdict, ModelCall | None]


def agree_by_rule(first: Answer, second: Answer, task: Task) -> Verdict:
    """`agree`, as the run's context wants it."""
    overlap = task.get("settings", {}).get("free_text_overlap", FREE_TEXT_OVERLAP)
    return agree(first, second, free_text_overlap=overlap)


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks a chat model where a comparison by rule cannot tell.

    Answers whose type has exact values (yes or no, a choice, a number, a list) are compared by
    `agree`, without a call; so are answers that already agree, and abstentions.

    Attributes:
        model: The model that judges; it sees the question and both answers, not the images.
        kinds: Answer types that are worth asking about.
        max_tokens: Limit on what it writes, in tokens.
        timeout: Seconds that it may take; None for no limit. Without a verdict in time the answers
            count as not agreeing.
    """

    model: ChatModel
    kinds: tuple[AnswerType, ...] = ("short_text", "free_text")
    max_tokens: int = 16
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_chat_model(self.model, "model")
        check_timeout(self.timeout)

    def verdict(
        self, first: Answer, second: Answer, task: Task, config: RunnableConfig
    ) -> Judgement:
        """The verdict, and the model call that it took, if it took one."""
        by_rule = agree_by_rule(first, second, task)
        if by_rule != "disagree" or first.kind not in self.kinds:
            return by_rule, None
        request = self._request(first, second, task)
        return _read(request, send(request, config), task)

    async def averdict(
        self, first: Answer, second: Answer, task: Task, config: RunnableConfig
    ) -> Judgement:
        """`verdict` for the event loop."""
        by_rule = agree_by_rule(first, second, task)
        if by_rule != "disagree" or first.kind not in self.kinds:
            return by_rule, None
        request = self._request(first, second, task)
        return _read(request, await asend(request, config), task)

    def _request(self, first: Answer, second: Answer, task: Task) -> Request:
        text = _QUESTION.format(question=task["question"], first=first.shown, second=second.shown)
        return Request(
            model=self.model,
            role="judge",
            style="judge",
            messages=[HumanMessage(content=text)],
            max_tokens=self.max_tokens,
            timeout=self.timeout,
        )


def _read(request: Request, reply: Reply, task: Task) -> Judgement:
    same_question: Task = {**task, "choices": [], "answer_type": "yes_no"}
    call = record(request.role, request.style, reply, same_question)
    said = parse(call["text"], "yes_no").value
    verdicts: dict[object, Verdict] = {True: "agree", False: "disagree"}
    return verdicts.get(said, "abstain"), call
