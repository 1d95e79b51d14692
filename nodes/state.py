"""What a run carries: plain data only, so that any checkpointer stores it.

No key has a reducer but `messages`, whose reducer is safe to share with a parent graph. Each model
step writes a key of its own, and `respond` puts the calls into one list.
"""

from typing import Annotated, Literal, NotRequired, get_args

from langchain_core.messages import AnyMessage
from langgraph.channels import EphemeralValue
from pydantic import Field
from typing_extensions import TypedDict

from ..answers import AnswerType, Verdict
from ..configs import Keep
from .conversation import Conversation
from .given import Given

Role = Literal["small", "large", "judge"]
CallStyle = Literal["direct", "explain", "reason", "transfer", "judge"]
Route = Literal["direct", "reasoned", "transferred"]

CallKey = Literal[
    "small_direct",
    "large_direct",
    "small_overlap",
    "direct_judgement",
    "small_explain",
    "large_explain",
    "small_reason",
    "large_reason",
    "reasoning_judgement",
    "small_transfer",
    "large_transfer",
]
Fallback = CallKey | Literal["raw_text", "review"]


class Selection(TypedDict):
    """What sparse transfer handed over of a reasoning, and what choosing it cost.

    Attributes:
        keep: How the tokens were chosen; see `SparseTransfer`.
        layer: The layer whose attention was read, 1 for the first; None if none was.
        share: The share of the attention that was asked for.
        reached: The share that the kept tokens hold; None if no attention was read.
        kept_tokens: Tokens handed over, counted in the reasoning.
        reasoning_tokens: Tokens of the reasoning, special ones left aside.
        reasoning: The reasoning they were chosen from (without a loop's repetitions, say).
        spans: Its stretches that were handed over, as [start, end] in characters, in order.
        text: What was handed over.
        input_tokens: Tokens of the prompts that were read for it.
        cached_tokens: How many of them came from a prefix cache.
        seconds: Wall clock of the selection; the call's own `seconds` hold it too.
    """

    keep: Keep
    layer: int | None
    share: float
    reached: float | None
    kept_tokens: int
    reasoning_tokens: int
    reasoning: str
    spans: list[list[int]]
    text: str
    input_tokens: int
    cached_tokens: int
    seconds: float


class ModelCall(TypedDict):
    """One call of one model.

    Attributes:
        role: Which agent was asked; "judge" for a verifier that is a model, or that failed.
        style: The prompt style: "direct" (S), "explain" (E), "reason" (R), "transfer" (S after a
            finished reasoning; two-stage is the same with one model), "judge".
        text: What the model wrote, as it wrote it; empty if the call failed.
        answer: The answer read from the text, as people write it; None if none could be read.
        kind: The answer type it was read as.
        input_tokens: Tokens of the prompt, images included; None if the model does not say.
        output_tokens: Tokens written; None if the model does not say.
        cached_tokens: Tokens of the prompt that came from a prefix cache; None if unknown.
        seconds: Wall clock of the call, waiting for the model included.
        finish_reason: Why the model stopped; "length" means that it hit its limit.
        cut: Why a reasoning is incomplete: it hit its limit ("length") or went round in circles
            ("loop"; what is transferred ends before the loop). Of a "transfer": whether the model's
            context had room for the end of the reasoning only ("front").
        error: One sentence if the call failed, else None. A verifier or a transfer of your own
            that fails is recorded as a failed call too.
        selection: Of a "transfer" that was sparse: what was handed over; else, and if the call
            failed, missing.
        drafted_tokens: Only in speculative decoding: tokens that the draft wrote.
        accepted_tokens: Only there: how many of them are in the text.
    """

    role: Role
    style: CallStyle
    text: str
    answer: str | None
    kind: AnswerType
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    seconds: float
    finish_reason: str | None
    cut: Literal["length", "loop", "front"] | None
    error: str | None
    selection: NotRequired[Selection]
    drafted_tokens: NotRequired[int]
    accepted_tokens: NotRequired[int]


class Settings(TypedDict, total=False):
    """What a run's context changes; see `MAIContext`.

    Attributes:
        transfer: What of a reasoning is handed over.
        sparse_layer: The layer that sparse transfer reads.
        sparse_share: The share of the attention that it keeps.
        prompts: Name of a prompt set.
        timeout: Seconds that one model call may take.
        max_tokens: Limits on outputs, in tokens, by prompt style.
        free_text_overlap: Share of common words from which two free texts can agree.
    """

    transfer: Literal["full", "sparse"]
    sparse_layer: int
    sparse_share: float
    prompts: str
    timeout: float
    max_tokens: dict[str, int]
    free_text_overlap: float


class Task(TypedDict):
    """What is asked, checked by `prepare` and read by every later step.

    Attributes:
        question: The question without its choices.
        images: References, in order: an absolute path or a URL each.
        choices: The options' texts, in order; the first is A.
        answer_type: What kind of answer is expected; never "auto".
        digests: A hash of each image's pixels, for cache keys; empty when nothing is cached.
        settings: What the run's context changes; missing where it changes nothing.
    """

    question: str
    images: list[str]
    choices: list[str]
    answer_type: AnswerType
    digests: list[str]
    settings: NotRequired[Settings]


class MAIInput(TypedDict, total=False):
    """Either `messages`, or a `question` with its `images`.

    Attributes:
        messages: A conversation; its last human message is asked, text and images. Checkpoints
            hold only the names of pictures inside it; the pictures are in the cache folder
            ($LANGGRAPH_MAI_CACHE or ~/.cache/langgraph-mai), which must be kept with them.
        question: The question; it goes before `messages`.
        images: Paths, file: paths or URLs, data URIs, http(s) URLs (if fetching is allowed), bytes
            or PIL images, in order. They replace the images of the message. Checkpoints hold only
            references of them; a parent graph has to make these itself (`image_reference`).
        choices: The options' texts, if the question has some; at most 26, of one line each.
        answer_type: "auto" (the default), "yes_no", "choice", "number", "short_text", "list" or
            "free_text".
    """

    messages: Annotated[
        list[AnyMessage],
        Field(description="A conversation; its last human message is asked, text and images."),
        Conversation,
    ]
    question: Annotated[
        str, Field(description="What is asked.", examples=["Which bar is the highest?"])
    ]
    images: Annotated[
        list[str],
        Field(
            description="The images: a path or an http(s) URL each, in order.",
            examples=[["demo/pictures/chart.png"]],
        ),
    ]
    choices: Annotated[
        list[str],
        Field(
            description="The options' texts, if the question has some; the answer is a letter.",
            examples=[["red", "blue"]],
        ),
    ]
    answer_type: Annotated[
        str,
        Field(
            description="What kind of answer is expected; auto finds out.",
            examples=["auto", *get_args(AnswerType)],
        ),
    ]


class MAIOutput(TypedDict):
    """What a run returns.

    Attributes:
        answer: The answer, as people write it.
        messages: The conversation with one new AIMessage, the answer; its usage is the sum over
            all calls, the prompts read for a `Selection` included.
        route: How far the run went: the direct answers agreed, the small agent reasoned, or its
            reasoning was transferred.
        fallback: What stood in where the step that should have answered could not: the key of
            another call ("large_direct"), "raw_text", or "review" (a person). None in a run without
            trouble.
        calls: Every model call, in order.
    """

    answer: str
    messages: Annotated[list[AnyMessage], Conversation]
    route: Route
    fallback: Fallback | None
    calls: list[ModelCall]


class MAIState(TypedDict, total=False):
    """The state of a graph that has the cascade as a node: its input and its output.

    The input's keys last until the run has ended, so that nodes may come before the cascade, and
    the next run on the thread does not see them. A run that raised leaves them there, to be
    resumed: after one, give every key that it was given, or start another thread.
    """

    messages: Annotated[list[AnyMessage], Conversation]
    question: Annotated[str, Given]
    images: Annotated[list[str], Given]
    choices: Annotated[list[str], Given]
    answer_type: Annotated[str, Given]

    answer: str | None
    route: Route | None
    fallback: Fallback | None
    calls: list[ModelCall]


class RunState(TypedDict, total=False):
    """The cascade's own state: input (gone after `prepare` has read it), working keys, output."""

    messages: Annotated[list[AnyMessage], Conversation]
    question: Annotated[str, EphemeralValue]
    images: Annotated[list[str], EphemeralValue]
    choices: Annotated[list[str], EphemeralValue]
    answer_type: Annotated[str, EphemeralValue]

    task: Task
    overlap: str
    small_direct: ModelCall | None
    large_direct: ModelCall | None
    small_overlap: ModelCall | None
    small_explain: ModelCall | None
    large_explain: ModelCall | None
    small_reason: ModelCall | None
    large_reason: ModelCall | None
    small_transfer: ModelCall | None
    large_transfer: ModelCall | None
    direct_verdict: Verdict | None
    direct_judgement: ModelCall | None
    reasoning_verdict: Verdict | None
    reasoning_judgement: ModelCall | None
    review: str | None

    answer: str | None
    route: Route | None
    fallback: Fallback | None
    calls: list[ModelCall]
