"""Training examples: prompts built by the graph's own code, and what a model should write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple

from ...configs import PromptsConfig, load_prompts
from ...nodes.prompts import Style, question_text, style_instruction, transfer_instruction
from ..questions import CHART_KINDS, GRID_KINDS, Kind, Question, ask, misread, solve
from ..scenes import COLORS, SHAPES, SIDE, Chart, Grid, Scene
from .pools import Pool

Lesson = Literal["direct", "explain", "reason", "transfer", "list"]


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt about a picture and the text to be learnt.

    Attributes:
        lesson: Prompt style, reasoning transfer, or the listing that comes first.
        kind: Kind of question, for the log.
        prompt: The user's text, without the picture.
        answer: The text to be learnt.
        quoted: A reasoning inside the prompt, if there is one.
        corrected: What `quoted` should have said, word by word.
        misled: Whether `quoted` ends in a wrong answer.
    """

    lesson: Lesson
    kind: str
    prompt: str
    answer: str
    quoted: str = ""
    corrected: str = ""
    misled: bool = False


class Reasoning(NamedTuple):
    """What the small model really wrote about a picture of the large model's pool."""

    picture: int
    question: Question
    text: str
    wrong: bool


class Tutor:
    """Makes examples about the pictures of one pool.

    Args:
        pool: The pictures.
        wrong_share: Share of wrong reasonings among the transfers.
        reasonings: Real reasonings of the small model; without them all are made up.
        chart_share: Share of charts among the pictures; None takes the pool's own.
        kind_weights: How often kinds of questions about grids are asked; those not named count 1.
    """

    def __init__(
        self,
        pool: Pool,
        wrong_share: float,
        reasonings: Sequence[Reasoning] = (),
        chart_share: float | None = None,
        kind_weights: Mapping[str, float] | None = None,
    ) -> None:
        self._scenes = pool.scenes
        self._chart_share = chart_share
        self._charts = [k for k, scene in enumerate(pool.scenes) if isinstance(scene, Chart)]
        self._grids = [k for k, scene in enumerate(pool.scenes) if isinstance(scene, Grid)]
        self._grid_weights = [(kind_weights or {}).get(kind, 1.0) for kind in GRID_KINDS]
        self._wrong_share = wrong_share
        self._prompts = load_prompts("demo")
        self._real = {
            wrong: [reasoning for reasoning in reasonings if reasoning.wrong == wrong]
            for wrong in (False, True)
        }

    def picture(self, rng: Random) -> int:
        """Index of a random picture."""
        if self._chart_share is None:
            return rng.randrange(len(self._scenes))
        return rng.choice(self._charts if rng.random() < self._chart_share else self._grids)

    def scene(self, index: int) -> Scene:
        """The scene of picture `index`."""
        return self._scenes[index]

    def styled(self, index: int, style: Style, rng: Random) -> Example:
        """A random question about a picture in one prompt style."""
        question = self._question(index, rng)
        answer = getattr(solve(self._scenes[index], question), style)
        prompt = styled_prompt(self._prompts, question, style, rng)
        return Example(style, question.kind, prompt, answer)

    def listing(self, index: int, rng: Random) -> Example:
        """List everything on a picture: what reasoning is built on."""
        scene = self._scenes[index]
        if isinstance(scene, Chart):
            lines = [f"{COLORS[bar.color]} bar {bar.value}" for bar in scene.bars]
            wanted = "value of all bars"
        else:
            by_color = rng.random() < 0.5
            wanted = f"{'color' if by_color else 'form'} of all shapes"
            lines = _listed_rows(scene, by_color)
        question = Question("count", f"Tell me the {wanted}.")
        prompt = styled_prompt(self._prompts, question, "reason", rng)
        return Example("list", "list", prompt, "\n".join(lines))

    def transfer(self, index: int, rng: Random) -> tuple[int, Example]:
        """A question with somebody's reasoning; returns the picture's index too."""
        wrong = rng.random() < self._wrong_share
        if self._real[wrong] and rng.random() < 0.8:
            real = rng.choice(self._real[wrong])
            return real.picture, self._transferred(real.picture, real.question, real.text, rng)
        question = self._question(index, rng)
        text = self._made_up(index, question, wrong, rng)
        return index, self._transferred(index, question, text, rng)

    def _transferred(self, index: int, question: Question, text: str, rng: Random) -> Example:
        truth = solve(self._scenes[index], question)
        prompt = transfer_prompt(self._prompts, question, text, rng)
        misled = text.rpartition("Answer:")[2].strip() != truth.direct
        return Example("transfer", question.kind, prompt, truth.direct, text, truth.reason, misled)

    def _made_up(self, index: int, question: Question, wrong: bool, rng: Random) -> str:
        scene = self._scenes[index]
        truth = solve(scene, question)
        made_up = truth
        for _ in range(8):
            slip = 0.03 if rng.random() < 0.3 else 0.0
            seen = misread(scene, rng.choice((0.03, 0.06, 0.1)), rng)
            made_up = solve(seen, question, rng, slip)
            if (made_up.direct != truth.direct) == wrong:
                return made_up.reason
        return made_up.reason if wrong else truth.reason

    def _question(self, index: int, rng: Random) -> Question:
        scene = self._scenes[index]
        question = None
        while question is None:
            question = ask(scene, self._kind(scene, rng), rng)
        return question

    def _kind(self, scene: Scene, rng: Random) -> Kind:
        if isinstance(scene, Chart):
            return rng.choice(CHART_KINDS)
        if len(set(self._grid_weights)) == 1:
            return rng.choice(GRID_KINDS)
        return rng.choices(GRID_KINDS, self._grid_weights)[0]


def styled_prompt(
    prompts: PromptsConfig, question: Question, style: Style, rng: Random | None = None
) -> str:
    """The user's text for a question in one prompt style; `rng` varies how people write."""
    shared = question_text(prompts, _as_typed(question.text, rng), question.choices)
    return shared + style_instruction(prompts, style, question.answer_type)


def transfer_prompt(
    prompts: PromptsConfig, question: Question, reasoning: str, rng: Random | None = None
) -> str:
    """The user's text that hands over a reasoning; `rng` varies how people write."""
    shared = question_text(prompts, _as_typed(question.text, rng), question.choices)
    return shared + transfer_instruction(prompts, reasoning, question.answer_type)


def _as_typed(text: str, rng: Random | None) -> str:
    if rng is None or rng.random() < 0.8:
        return text
    habit = rng.randrange(3)
    if habit == 0:
        return text[0].lower() + text[1:]
    return text.rstrip("?.") if habit == 1 else text[0].lower() + text[1:].rstrip("?.")


def _listed_rows(grid: Grid, by_color: bool) -> list[str]:
    words = [
        "-" if item is None else COLORS[item.color] if by_color else SHAPES[item.shape]
        for item in grid.cells
    ]
    return [
        f"row {row + 1} {' '.join(words[row * SIDE : (row + 1) * SIDE])}" for row in range(SIDE)
    ]
