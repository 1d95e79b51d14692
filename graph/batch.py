"""Many questions in one run: each is a run of the cascade, sent to its own branch."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, cast

from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, Overwrite, Send
from pydantic import Field
from typing_extensions import TypedDict

from ..nodes.context import MAIContext
from ..nodes.errors import MAIError, MAIInputError
from ..nodes.run_input import RunInput
from ..nodes.state import Fallback, MAIInput, ModelCall, Route
from .build import MAIGraph

MAX_QUESTIONS = 1000
"""A run of more is refused: every question is a branch of one step."""


class BatchQuestion(TypedDict, total=False):
    """One question; the keys are those of `MAIInput`.

    Attributes:
        question: What is asked.
        images: Paths or URLs, in order.
        choices: The options' texts, if the question has some.
        answer_type: What kind of answer is expected.
    """

    question: Annotated[str, Field(description="What is asked.")]
    images: Annotated[list[str], Field(description="Paths or URLs of the images, in order.")]
    choices: Annotated[list[str], Field(description="The options' texts, if there are some.")]
    answer_type: Annotated[str, Field(description="What kind of answer is expected, or auto.")]


class BatchAnswer(TypedDict):
    """What became of one question.

    Attributes:
        question: As it was given.
        answer: The answer; None if the run failed.
        route: How far the run went.
        fallback: What stood in, see `MAIOutput`.
        calls: Every model call.
        error: One sentence if this question could not be answered; the others are.
    """

    question: str
    answer: str | None
    route: Route | None
    fallback: Fallback | None
    calls: list[ModelCall]
    error: str | None


class BatchInput(TypedDict):
    """What a batch is given.

    Attributes:
        questions: The questions; answers come in the same order.
    """

    questions: Annotated[
        list[BatchQuestion],
        Field(
            description="The questions, each with its images.",
            examples=[
                [
                    {
                        "question": "Which bar is the highest?",
                        "images": ["demo/pictures/chart.png"],
                    },
                    {
                        "question": "How many red shapes are there in the picture?",
                        "images": ["demo/pictures/shapes.png"],
                    },
                ]
            ],
        ),
    ]


class BatchOutput(TypedDict):
    """What a batch returns.

    Attributes:
        answers: One an question, in the questions' order.
    """

    answers: Annotated[list[BatchAnswer], operator.add]


class _BatchState(TypedDict):
    questions: list[BatchQuestion]
    answers: Annotated[list[BatchAnswer], operator.add]


MAIBatchGraph = CompiledStateGraph[Any, MAIContext, BatchInput, BatchOutput]


def create_mai_batch(
    mai: MAIGraph, *, checkpointer: Checkpointer = None, name: str = "mai_batch"
) -> MAIBatchGraph:
    """Build a graph that answers many questions at once, by `Send`.

    How many run at the same time is set as for any graph, by `max_concurrency` in the config. A
    question that fails does not fail the others: its `error` says why.

    Args:
        mai: What `create_mai` (or `create_strategy`) returned.
        checkpointer: As for any graph.
        name: The graph's name.
    """

    def ask(asked: BatchQuestion) -> dict[str, Any]:
        try:
            return _answered(asked, mai.invoke(_input(asked)))
        except (MAIError, MAIInputError) as error:
            return _failed(asked, error)

    async def aask(asked: BatchQuestion) -> dict[str, Any]:
        try:
            return _answered(asked, await mai.ainvoke(_input(asked)))
        except (MAIError, MAIInputError) as error:
            return _failed(asked, error)

    graph = StateGraph(
        _BatchState,
        context_schema=MAIContext,
        input_schema=BatchInput,
        output_schema=BatchOutput,
    )
    graph.add_node("split", _split)
    # LangGraph looks into a RunnableLambda, and so finds, draws and inspects the graph inside.
    node: Any = RunnableLambda(ask, afunc=aask, name="ask")
    graph.add_node("ask", node)
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", _send, ["ask", END])
    graph.add_edge("ask", END)
    compiled = graph.compile(checkpointer=checkpointer, name=name)
    RunInput.of(compiled, BatchInput)
    return compiled


def _split(state: _BatchState) -> dict[str, Any]:
    questions: Any = state.get("questions")
    if not isinstance(questions, Sequence) or isinstance(questions, str):
        raise MAIInputError("There is nothing to ask: give `questions`, a list.")
    if len(questions) > MAX_QUESTIONS:
        raise MAIInputError(
            f"There are {len(questions)} questions; give at most {MAX_QUESTIONS} a run."
        )
    for asked in questions:
        if not isinstance(asked, dict):
            raise MAIInputError(
                "Every one of `questions` must be a dict with `question` and `images`, not "
                f"{type(asked).__name__}."
            )
    return {"answers": Overwrite([])}


def _send(state: _BatchState) -> list[Send]:
    return [Send("ask", asked) for asked in state["questions"]]


def _input(asked: BatchQuestion) -> MAIInput:
    # Named one by one: other keys of a question are the caller's own.
    given = {key: value for key, value in asked.items() if key in BatchQuestion.__annotations__}
    return cast("MAIInput", given)


def _answered(asked: BatchQuestion, result: dict[str, Any] | Any) -> dict[str, Any]:
    answer: BatchAnswer = {
        "question": asked.get("question", ""),
        "answer": result["answer"],
        "route": result["route"],
        "fallback": result["fallback"],
        "calls": result["calls"],
        "error": None,
    }
    return {"answers": [answer]}


def _failed(asked: BatchQuestion, error: Exception) -> dict[str, Any]:
    answer: BatchAnswer = {
        "question": str(asked.get("question", "")),
        "answer": None,
        "route": None,
        "fallback": None,
        "calls": [],
        "error": str(error),
    }
    return {"answers": [answer]}
