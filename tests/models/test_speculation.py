"""The loop of speculative decoding, on models made up for it and on real ones."""

from random import Random

import pytest
import torch
from checkpoints import save_internvl, save_qwen3_vl
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from langgraph_mai.models.completion import Drafted
from langgraph_mai.models.transformers.checkpoint import load_checkpoint
from langgraph_mai.models.transformers.encoder import Encoder
from langgraph_mai.models.transformers.load_errors import ModelSpec
from langgraph_mai.models.transformers.speculation import Reader, Speculation

END = 0
TOKENS = 4
TURNS = [
    {
        "role": "user",
        "content": [{"type": "image"}, {"type": "text", "text": "What is in the picture?"}],
    }
]


class MadeUpReader:
    """A model whose next token is drawn from all tokens before it, and which counts its passes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.known: list[int] = []
        self.passes = 0

    def next_token(self, tokens: list[int]) -> int:
        return Random(f"{self.seed} {tokens}").randrange(TOKENS)

    def read_prompt(self) -> torch.Tensor:
        return self._scores([self.next_token([])])

    def read(self, tokens: list[int]) -> torch.Tensor:
        self.passes += 1
        found = []
        for token in tokens:
            self.known.append(token)
            found.append(self.next_token(self.known))
        return self._scores(found)

    def forget(self, tokens: int) -> None:
        del self.known[len(self.known) - tokens :]

    def _scores(self, tokens: list[int]) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.tensor(tokens), TOKENS).float()


class Guesser(MadeUpReader):
    """A draft that is right as often as it is told."""

    def __init__(self, target: MadeUpReader, seed: int, right: float) -> None:
        super().__init__(seed)
        self.target = target
        self.right = right

    def next_token(self, tokens: list[int]) -> int:
        if Random(f"right {self.seed} {tokens}").random() < self.right:
            return self.target.next_token(tokens)
        return super().next_token(tokens)


def greedy(target: MadeUpReader, limit: int, enough: int) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < min(limit, enough) and END not in tokens:
        tokens.append(target.next_token(tokens))
    return tokens


@given(
    seed=st.integers(0, 10_000),
    right=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    ahead=st.integers(1, 7),
    limit=st.integers(1, 40),
    enough=st.integers(1, 40),
)
def test_whatever_the_draft_writes_the_output_is_the_targets_own(seed, right, ahead, limit, enough):
    target = MadeUpReader(seed)
    draft, drafted = Guesser(target, seed + 1, right), Drafted()
    tokens: list[int] = []

    def accept(token: int, scores: torch.Tensor) -> bool:
        assert int(scores.argmax()) == token
        tokens.append(token)
        return token != END and len(tokens) < enough

    Speculation(target, draft, frozenset({END}), drafted, ahead).run(limit, accept)
    assert tokens == greedy(target, limit, enough)
    assert 0 <= drafted.accepted <= drafted.written
    assert drafted.accepted <= max(0, len(tokens) - 1)
    assert draft.passes == drafted.written
    # Every pass of the target but the prompt's gives a token of its own behind the accepted ones.
    own = len(tokens) - 1 - drafted.accepted
    assert own <= target.passes <= own + 1


@given(seed=st.integers(0, 10_000), ahead=st.integers(1, 7))
def test_a_draft_that_is_always_right_saves_passes(seed, ahead):
    target = MadeUpReader(seed)
    drafted = Drafted()
    tokens: list[int] = []

    def accept(token: int, _scores: torch.Tensor) -> bool:
        tokens.append(token)
        return True

    draft = Guesser(target, seed, 1.0)
    Speculation(target, draft, frozenset(), drafted, ahead).run(1 + 3 * (ahead + 1), accept)
    assert drafted.written == drafted.accepted == 3 * ahead
    assert target.passes == 3


def load(folder):
    return load_checkpoint(ModelSpec(str(folder), dtype="float32", device="cpu"), gate)


@pytest.fixture(scope="module", params=[save_qwen3_vl, save_internvl])
def checkpoints(request, tmp_path_factory):
    """A target, a draft that writes something else, and the target's twin."""
    folders = [tmp_path_factory.mktemp("speculation") for _ in range(2)]
    target, draft = (load(request.param(folder, seed)) for seed, folder in enumerate(folders))
    return target, draft, load(folders[0])


@pytest.fixture(scope="module")
def pictures():
    return [Image.new("RGB", (128, 128), color) for color in ("red", "navy")]


def write(target, draft, picture, ahead, limit):
    """Tokens of the target with a draft, and what became of the draft's."""
    prompts = [Encoder(one, reuses=True).encode(TURNS, [picture]) for one in (target, draft)]
    readers = [
        Reader(one.model, prompt) for one, prompt in zip((target, draft), prompts, strict=True)
    ]
    tokens, drafted = [], Drafted()

    def accept(token: int, _scores: torch.Tensor) -> bool:
        tokens.append(token)
        return True

    with torch.inference_mode():
        Speculation(*readers, frozenset(), drafted, ahead).run(limit, accept)
    return tokens, drafted


def plain(target, picture, limit):
    """Tokens of transformers' own greedy search."""
    processor = target.processor
    text = processor.apply_chat_template(TURNS, add_generation_prompt=True, tokenize=False)
    inputs = processor(text=[text], images=[picture], return_tensors="pt")
    inputs = {key: value for key, value in inputs.items() if torch.is_tensor(value)}
    inputs.pop("num_patches", None)
    written = target.model.generate(
        **inputs, max_new_tokens=limit, do_sample=False, eos_token_id=None
    )
    for part in target.model.modules():  # Qwen keeps the offset of its positions on the model
        if hasattr(part, "rope_deltas"):
            part.rope_deltas = None
    return written[0, inputs["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("ahead", [1, 2, 5, 40])
def test_the_tokens_are_those_of_transformers_own_greedy_search(checkpoints, pictures, ahead):
    target, draft, _ = checkpoints
    for picture in pictures:
        tokens, drafted = write(target, draft, picture, ahead, 30)
        assert tokens == plain(target, picture, 30)
        assert drafted.accepted < drafted.written


def test_a_twin_is_always_right_so_the_draft_sees_the_picture(checkpoints, pictures):
    target, _, twin = checkpoints
    outputs = set()
    for picture in pictures:
        tokens, drafted = write(target, twin, picture, 4, 21)
        assert drafted.accepted == drafted.written == 16
        outputs.add(tuple(tokens))
    assert len(outputs) == len(pictures)  # what is written depends on the picture


def test_a_reader_leaves_nothing_on_the_model(checkpoints, pictures):
    target, draft, _ = checkpoints
    before = plain(target, pictures[0], 20)
    write(draft, target, pictures[1], 5, 20)
    assert plain(target, pictures[0], 20) == before
    for model in (target.model, draft.model):
        offsets = [getattr(part, "rope_deltas", None) for part in model.modules()]
        assert all(offset is None for offset in offsets)
