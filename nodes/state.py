"""What a run carries: plain data only, so that any checkpointer stores it.

No key has a reducer but `messages` and what holds images; those are on a `DeltaChannel`, whose
checkpoints hold each write once instead of the whole value at every step. Each model node writes a
key of its own, and `respond` puts the calls into one list.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.channels import DeltaChannel, EphemeralValue, UntrackedValue
from langgraph.graph.message import _messages_delta_reducer as merge_messages
from langgraph.graph.message import add_messages
from pydantic import Field
from typing_extensions import TypedDict, override

from ..answers import AnswerType, Verdict
from ..configs import Keep

Role = Literal["small", "large", "judge"]
CallStyle = Literal["direct", "explain", "reason", "transfer", "judge"]
Route = Literal["confident", "direct", "reasoned", "transferred"]

CallKey = Literal[
    "small_direct",
    "large_direct",
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

FALLBACKS: tuple[CallKey, ...] = (
    "large_direct",
    "small_reason",
    "small_direct",
    "large_explain",
    "small_explain",
    "large_reason",
)
"""Whose answer is the fallback, best first, where the node that should have answered could not."""

AskedType = Literal["auto", AnswerType]
"""A kind of answer that is expected; "auto" to find out which."""

Value = bool | float | str | list[str] | dict[str, Any] | None
"""A typed answer: yes or no, a number, a letter or a text, a list; None for an abstention. In a
schema: an object; of a call, what it says of each field (`Reading`)."""

MAX_TEXT = 200_000
"""Characters that a question may have, and its choices together."""

MAX_SCHEMA = 50_000
"""Characters that a schema may have."""

Disputed = dict[Literal["direct", "reasoning"], list[str]]
"""The fields of a schema in which the models differ, after each verification."""


class MAIError(RuntimeError):
    """No model could answer; the message has every failure."""


class MAIInputError(ValueError):
    """An input that cannot be answered, with one sentence on what to change."""


def _newest(_value: Any, writes: Sequence[Any]) -> Any:
    return writes[-1]


class InputImages(DeltaChannel[Any]):
    """The images of a run's input: there for `prepare`, then gone, like an `EphemeralValue`.

    An `EphemeralValue` would be stored once more, in a checkpoint. One step without a write clears
    it, so that what a failed run was given does not reach the next one.
    """

    @override
    def update(self, values: Sequence[Any]) -> bool:
        if values or not self.value:
            return super().update(values)
        self.value = self.typ()
        return True


class FieldAnswer(TypedDict):
    """The answer to one field of a schema.

    Attributes:
        value: Its value, as JSON data.
        written: The same as the model wrote it.
        route: How far the run went for it.
        fallback: What answered where the step that should have answered could not.
        probability: That of the value's tokens; None where the model tells none.
        reason: Why it has no value; missing if it has one.
    """

    value: Any
    written: str
    route: Route
    fallback: Fallback | None
    probability: float | None
    reason: NotRequired[str]


class Selection(TypedDict):
    """What sparse transfer keeps of a reasoning, and what choosing it cost.

    Attributes:
        keep: How the tokens were chosen; see `SparseTransfer`.
        layer: The layer whose attention was read, 1 for the first; None if none was.
        share: The share of the attention that was wanted.
        reached: The share that the kept tokens hold; None if no attention was read.
        kept_tokens: Tokens transferred, counted in the reasoning.
        reasoning_tokens: Tokens of the reasoning, special ones left aside.
        reasoning: The reasoning they were chosen from (without a loop's repetitions, say).
        spans: Its spans that were transferred, as [start, end] in characters, in order.
        text: What was transferred.
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
        role: Which agent was called; "judge" for a verifier that is a model, or that failed.
        style: The prompt style: "direct" (S), "explain" (E), "reason" (R), "transfer" (S after a
            finished reasoning; two-stage is the same with one model), "judge".
        text: The output, unchanged; empty if the call failed.
        reasoning: What the model thought in a channel of its own, as far as it did; it is
            transferred together with `text`.
        images: How many images the prompt held.
        answer: The answer read from the text, as people write it; None if none could be read.
        value: The same as a typed value, see `Value`; None if none could be read.
        unit: Of a number: "%", a currency sign or a unit of measure; "" if there is none.
        kind: The answer type it was read as.
        input_tokens: Tokens of the prompt, images included; None if the model does not say.
        output_tokens: Tokens generated; None if the model does not say.
        cached_tokens: Tokens of the prompt that came from a prefix cache; None if unknown.
        seconds: Wall clock of the call, waiting for the model included.
        finish_reason: Why the model stopped; "length" means that it hit its limit.
        cut: Why an output is incomplete: it hit its limit ("length"), or a reasoning repeats
            ("loop"; what is transferred ends before the loop). Of a "transfer" also: only the end
            of the reasoning fitted into the model's context ("front").
        probability: Probability of the answer's tokens, among all alternatives of yes or no and of
            letters; None if the model gives none, and of outputs that are long.
        error: One sentence if the call failed, else None. A verifier or a transfer of your own
            that fails is recorded as a failed call too.
        cached: Whether the call came from a `CallCache`; its seconds and tokens are those that it
            took when it was made.
        selection: Of a "transfer" that was sparse: what was transferred; else, and if the call
            failed, missing.
        drafted_tokens: Only in speculative decoding: tokens that the draft model proposed.
        accepted_tokens: Only there: how many of them are in the text.
    """

    role: Role
    style: CallStyle
    text: str
    reasoning: str
    images: int
    answer: str | None
    value: Value
    unit: str
    kind: AnswerType
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    seconds: float
    finish_reason: str | None
    cut: Literal["length", "loop", "front"] | None
    probability: float | None
    error: str | None
    cached: bool
    selection: NotRequired[Selection]
    drafted_tokens: NotRequired[int]
    accepted_tokens: NotRequired[int]


class GateDecision(TypedDict):
    """What the gate made of a question.

    Attributes:
        confident: Whether the small model's direct answer is sure enough to stand.
        audited: Whether the question is audited: then the cascade runs all the same.
        off: Why the gate is off, in one sentence; None if it is on.
    """

    confident: bool
    audited: bool
    off: str | None


class ImageReference(TypedDict):
    """An image of a task.

    Attributes:
        reference: Where it is read again, if need be: an absolute path, a URL,
            `message:ID/BLOCK`, or `input:DIGEST` for data in the run's `images`.
        digest: The hash of its content, by which the decoded image is found.
    """

    reference: str
    digest: str


class Task(TypedDict):
    """The question, checked by `prepare` and read by every later node.

    Attributes:
        question: The question without its choices.
        images: References of the images, in order.
        choices: The options' texts, in order; the first is A.
        answer_type: What kind of answer is expected; never "auto".
        settings: The fields of `MAIContext` that the run's context sets; missing if it sets none.
        schema: The JSON schema of the answer, if it is an object.
    """

    question: str
    images: list[ImageReference]
    choices: list[str]
    answer_type: AnswerType
    settings: NotRequired[dict[str, Any]]
    schema: NotRequired[dict[str, Any]]


class MAIInput(TypedDict, total=False):
    """Either `messages`, or a `question` with its `images`.

    Attributes:
        messages: A conversation; its last human message is the question, together with images that
            were sent just before or behind it. A question without an image is about the latest ones
            of the conversation. An image inside it lives and dies with its thread; use paths or
            URLs to keep pixels out of checkpoints.
        question: The question; it goes before `messages`.
        images: Paths, file: paths or URLs, data URIs, http(s) URLs (if fetching is allowed), bytes
            or PIL images (those without a checkpointer), in order. They replace the images of the
            message, and do not outlive the run. In a parent graph, whose state may keep them for
            later runs, an image that was sent with the question or since goes before them.
        choices: The options' texts, if the question has some; at most 26, of one line each.
        answer_type: "auto" (the default), "yes_no", "choice", "number", "short_text", "list" or
            "free_text".
        schema: A JSON schema or, without a checkpointer, a pydantic model: the answer is an object,
            agreed field by field.
    """

    messages: Annotated[
        list[AnyMessage],
        Field(description="A conversation; its last human message is asked, text and images."),
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
        AskedType,
        Field(description="What kind of answer is expected; auto finds out."),
    ]
    schema: Annotated[Any, Field(description="The JSON schema of an answer that is an object.")]


class MAIOutput(TypedDict):
    """What a run returns.

    Attributes:
        answer: The answer, as people write it.
        value: The same as a typed value, see `Value`; None if the text could not be read.
        messages: The conversation with the answer, an AIMessage, and before it what was asked by
            `question`. It holds the small agent's reasoning as a `reasoning` block, if there is
            one, and `route`, `fallback`, `confidence` and `images` in `response_metadata`; its
            usage is the sum over all calls, the prompts read for a `Selection` included.
        route: How far the run went: the small model was sure enough ("confident", with a gate
            only), the direct answers agreed, the small agent reasoned, or its reasoning was
            transferred.
        confidence: Share of right answers that was measured on this route with about this
            probability; None without a calibration of this very cascade.
        gate: What the gate made of the question; None without one.
        fallback: What answered where the step that should have answered could not: the key of
            another call ("large_direct"), "raw_text", or "review" (a person). None in a run without
            trouble.
        calls: Every model call, in order.
        fields: Of an answer in a schema, its fields by name; a nested one's name has a point.
    """

    answer: str
    value: Value
    messages: list[AnyMessage]
    route: Route
    fallback: Fallback | None
    confidence: float | None
    gate: GateDecision | None
    calls: list[ModelCall]
    fields: NotRequired[dict[str, FieldAnswer]]


class _Answered(TypedDict, total=False):
    answer: str | None
    value: Value
    route: Route | None
    fallback: Fallback | None
    confidence: float | None
    gate: GateDecision | None
    calls: list[ModelCall]
    fields: dict[str, FieldAnswer] | None


class MAIState(_Answered, total=False):
    """The state of a graph that has the cascade as a node: its input and its output.

    The input's keys but `messages` last for one run and are in no checkpoint: nodes may come before
    the cascade, and the next run on the thread does not see them. A graph that interrupts before
    the cascade declares them itself (`question: str`).
    """

    messages: Annotated[list[AnyMessage], add_messages]
    question: Annotated[str, UntrackedValue]
    images: Annotated[list[str], UntrackedValue]
    choices: Annotated[list[str], UntrackedValue]
    answer_type: Annotated[AskedType, UntrackedValue]
    schema: Annotated[Any, UntrackedValue]


class RunState(_Answered, total=False):
    """The cascade's own state: input (gone after `prepare` has read it), working keys, output.

    `image_data` holds the images that came as data in `images` (base64, by digest) until `respond`:
    so a run that was interrupted can be resumed in another process.
    """

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages)]
    question: Annotated[str, EphemeralValue]
    images: Annotated[list[str], InputImages(_newest)]
    choices: Annotated[list[str], EphemeralValue]
    answer_type: Annotated[AskedType, EphemeralValue]
    schema: Annotated[Any, EphemeralValue]

    task: Task
    image_data: Annotated[dict[str, str], DeltaChannel(_newest)]
    small_direct: ModelCall | None
    large_direct: ModelCall | None
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
    disputed: Disputed | None
