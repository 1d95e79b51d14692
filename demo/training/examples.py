"""Training examples: prompts built by the graph's own code, and what a model should write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, NamedTuple

from ...answers.schemas import Schema
from ...configs import PromptsConfig, load_prompts
from ...nodes.prompts import (
    Style,
    question_text,
    schema_instruction,
    style_instruction,
    transfer_instruction,
)
from ..questions import CHART_KINDS, Kind, Question, ask
from ..scenes import COLORS, SHAPES, SIDE, Chart, Scene
from ..solutions import misread, solve

_REAL_SHARE = 0.8
"""Share of real reasonings among the transfers, where there are any."""
_FIELD_TYPES = {"number": "number", "short_text": "string"}


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt about an image and the text to be learnt.

    Attributes:
        lesson: Prompt style, reasoning transfer, or the listing that comes first.
        kind: Kind of question, for the log.
        prompt: The user's text, without the image.
        answer: The text to be learnt.
        quoted: A reasoning inside the prompt, if there is one.
        corrected: What `quoted` should have been, word by word.
        misled: Whether `quoted` ends in a wrong answer.
    """

    lesson: Literal["direct", "explain", "reason", "transfer", "list"]
    kind: str
    prompt: str
    answer: str
    quoted: str = ""
    corrected: str = ""
    misled: bool = False


class Reasoning(NamedTuple):
    """What the small model really wrote about an image of the large model's pool."""

    image: int
    question: Question
    text: str
    wrong: bool


class Tutor:
    """Makes examples about the images of one pool."""

    def __init__(
        self,
        scenes: Sequence[Scene],
        wrong_share: float = 0.4,
        reasonings: Sequence[Reasoning] = (),
    ) -> None:
        """Sort the scenes and reasonings.

        Args:
            scenes: What the images show.
            wrong_share: Share of wrong reasonings among the transfers.
            reasonings: Real reasonings of the small model; without them all are made up.
        """
        self._scenes = scenes
        self._charts = [k for k, scene in enumerate(scenes) if isinstance(scene, Chart)]
        self._grids = [k for k, scene in enumerate(scenes) if not isinstance(scene, Chart)]
        self._wrong_share = wrong_share
        self._prompts = load_prompts("demo")
        self._real = {
            wrong: [reasoning for reasoning in reasonings if reasoning.wrong == wrong]
            for wrong in (False, True)
        }

    def scene(self, index: int) -> Scene:
        """Return the scene of image `index`."""
        return self._scenes[index]

    def pick(self, kinds: Mapping[Kind, float], rng: Random) -> tuple[int, Question]:
        """Return a question, its kind drawn by weight, and the index of an image to ask it about.

        It is to be reasoned about: of a form, only fields on which two models may differ are left.
        """
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        charted = kind in CHART_KINDS or (kind == "form" and rng.random() < 0.2)
        while True:
            index = rng.choice(self._charts if charted else self._grids)
            if question := ask(self._scenes[index], kind, rng):
                return index, replace(question, fields=question.fields[: rng.randint(1, 2)])

    def long(self, lesson: str, kinds: Mapping[Kind, float], rng: Random) -> tuple[int, Example]:
        """Return an example of a lesson with a long text, and the index of its image.

        Args:
            lesson: "reason", "explain", "list" or "transfer".
            kinds: How often each kind of question is asked.
            rng: Decides the question.
        """
        if lesson == "transfer":
            return self._transfer(kinds, rng)
        index, question = self.pick(kinds, rng)
        if lesson == "list":
            return index, self._listing(index, rng)
        style: Style = "reason" if lesson == "reason" else "explain"
        return index, self._styled(index, question, style, rng)

    def direct(self, index: int, kinds: Mapping[Kind, float], rng: Random) -> Example:
        """Return a random question about an image, to be answered at once."""
        question = None
        while question is None:
            kind = rng.choices(list(kinds), list(kinds.values()))[0]
            question = ask(self._scenes[index], kind, rng)
        return self._styled(index, question, "direct", rng)

    def _styled(self, index: int, question: Question, style: Style, rng: Random) -> Example:
        answer = getattr(solve(self._scenes[index], question), style)
        prompt = styled_prompt(self._prompts, question, style, rng)
        return Example(style, question.kind, prompt, answer)

    def _listing(self, index: int, rng: Random) -> Example:
        """List everything on an image: what reasoning is built on."""
        scene = self._scenes[index]
        if isinstance(scene, Chart):
            lines = [f"{COLORS[bar.color]} bar {bar.value}" for bar in scene.bars]
            wanted = "value of all bars"
        else:
            by_color = rng.random() < 0.5
            wanted = f"{'color' if by_color else 'form'} of all shapes"
            words = [
                "-" if item is None else COLORS[item.color] if by_color else SHAPES[item.shape]
                for item in scene.cells
            ]
            rows = [words[start : start + SIDE] for start in range(0, SIDE * SIDE, SIDE)]
            lines = [f"row {number} {' '.join(row)}" for number, row in enumerate(rows, 1)]
        question = Question("count", f"Tell me the {wanted}.")
        prompt = styled_prompt(self._prompts, question, "reason", rng)
        return Example("list", "list", prompt, "\n".join(lines))

    def _transfer(self, kinds: Mapping[Kind, float], rng: Random) -> tuple[int, Example]:
        """Ask a question with somebody's reasoning."""
        wrong = rng.random() < self._wrong_share
        if self._real[wrong] and rng.random() < _REAL_SHARE:
            index, question, text, _ = rng.choice(self._real[wrong])
        else:
            index, question = self.pick(kinds, rng)
            text = self._made_up(index, question, wrong, rng)
        truth = solve(self._scenes[index], question)
        prompt = transfer_prompt(self._prompts, question, text, rng)
        misled = final(text) != truth.direct
        return index, Example(
            "transfer", question.kind, prompt, truth.direct, text, truth.reason, misled
        )

    def _made_up(self, index: int, question: Question, wrong: bool, rng: Random) -> str:
        scene = self._scenes[index]
        truth = solve(scene, question)
        for _ in range(8):
            slip = 0.03 if rng.random() < 0.3 else 0.0
            seen = misread(scene, rng.choice((0.03, 0.06, 0.1)), rng)
            made_up = solve(seen, question, rng, slip)
            if (made_up.direct != truth.direct) == wrong:
                return made_up.reason
        return truth.reason


def final(reasoning: str) -> str:
    """Return the answer that a reasoning ends in."""
    return reasoning.rpartition("Answer:")[2].strip()


def styled_prompt(
    prompts: PromptsConfig, question: Question, style: Style, rng: Random | None = None
) -> str:
    """Return the text for a question in one prompt style; `rng` varies how people write."""
    return _prompt(prompts, question, style_instruction(prompts, style, question.answer_type), rng)


def transfer_prompt(
    prompts: PromptsConfig, question: Question, reasoning: str, rng: Random | None = None
) -> str:
    """Return the text that transfers a reasoning; `rng` varies how people write."""
    instruction = transfer_instruction(prompts, reasoning, question.answer_type)
    return _prompt(prompts, question, instruction, rng)


def _prompt(
    prompts: PromptsConfig, question: Question, instruction: str, rng: Random | None
) -> str:
    shared = question_text(prompts, _as_typed(question.text, rng), question.choices)
    if question.fields:
        types = {name: {"type": _FIELD_TYPES[field.answer_type]} for name, field in question.fields}
        form = {"type": "object", "properties": types, "required": list(types)}
        instruction += schema_instruction(Schema.read(form).forms())
    return shared + instruction


def _as_typed(text: str, rng: Random | None) -> str:
    if rng is None or rng.random() < 0.8:
        return text
    habit = rng.randrange(3)
    if habit == 0:
        return text[0].lower() + text[1:]
    return text.rstrip("?.") if habit == 1 else text[0].lower() + text[1:].rstrip("?.")
