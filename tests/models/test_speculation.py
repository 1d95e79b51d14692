"""Speculative decoding: the target's own output, whatever its draft proposes."""

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import torch
from checkpoints import save_internvl, save_qwen3_vl
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai.models.capabilities import SupportsDraft
from langgraph_mai.models.completion import Drafted
from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.server import ChatServer
from langgraph_mai.models.transformers.chat import ChatTransformers
from langgraph_mai.models.transformers.speculation import AHEAD, speculate


@pytest.fixture(scope="module", params=[save_qwen3_vl, save_internvl])
def models(request, tmp_path_factory):
    """A target, and a draft that writes something else."""
    folders = [tmp_path_factory.mktemp("drafts") for _ in range(2)]
    return tuple(
        ChatTransformers(model=str(request.param(folder, seed)), device="cpu", max_tokens=30)
        for seed, folder in enumerate(folders)
    )


@pytest.fixture
def question():
    def ask(color: str = "red", text: str = "What is it?") -> list[HumanMessage]:
        image = {"type": "image", "image": Image.new("RGB", (128, 128), color)}
        return [HumanMessage([image, {"type": "text", "text": text}])]

    return ask


def test_the_answer_is_the_one_without_a_draft(models, question, ask):
    target, draft = models
    expected = target.invoke(question()).text
    assert ask(target, question(), draft=draft) == expected
    assert ask(target.model_copy(update={"draft": draft}), question()) == expected


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 6, 7, 30])
def test_limits_log_probabilities_and_counts_are_those_without_a_draft(
    models, question, limit, twin
):
    target, draft = models
    draft = target.model_copy() if twin else draft
    asked = {"max_tokens": limit, "logprobs": True, "top_logprobs": 3}
    message = target.invoke(question(), draft=draft, **asked)
    plain = target.invoke(question(), **asked)
    assert message.text == plain.text
    said, own = message.response_metadata, plain.response_metadata
    assert said["finish_reason"] == own["finish_reason"] == "length"
    assert message.usage_metadata["output_tokens"] == limit
    for one, other in zip(said["logprobs"]["content"], own["logprobs"]["content"], strict=True):
        assert one["token"] == other["token"]
        assert one["logprob"] == pytest.approx(other["logprob"], abs=1e-4)
        assert [top["token"] for top in one["top_logprobs"]] == [
            top["token"] for top in other["top_logprobs"]
        ]
    assert "drafted_tokens" not in own
    if limit == 30:
        drafted, accepted = said["drafted_tokens"], said["accepted_tokens"]
        assert (accepted == drafted > 20) if twin else (0 <= accepted < drafted)
        *_, last = target.stream(question(), draft=draft)
        assert last.response_metadata["drafted_tokens"] == drafted


def test_stop_strings_end_the_output_where_they_do_without_a_draft(models, question):
    target, draft = models
    text = target.invoke(question()).text
    stop = [text[len(text) // 2 :][:2]]
    plain = target.invoke(question(), stop=stop)
    for writer in (draft, target.model_copy()):
        message = target.invoke(question(), stop=stop, draft=writer)
        assert message.text == plain.text
        assert message.response_metadata["finish_reason"] == "stop"
        assert message.usage_metadata == plain.usage_metadata | {
            "input_token_details": {"cache_read": 0}
        }


def test_calls_with_and_without_a_draft_mix(models, question):
    target, draft = models
    questions = [question(color) for color in ("red", "navy", "white", "green")]
    expected = [target.invoke(one).text for one in questions]
    assert [one.text for one in target.batch(questions, draft=draft)] == expected

    async def mixed():
        calls = [
            target.ainvoke(one, draft=draft if number % 2 else None)
            for number, one in enumerate(questions * 3)
        ]
        return [message.text for message in await asyncio.gather(*calls)]

    assert asyncio.run(mixed()) == expected * 3


def test_a_model_drafts_while_it_answers_itself(models, question):
    """Each drafts for the other one, and neither waits for it."""
    target, draft = models
    expected = [target.invoke(question()).text, draft.invoke(question("navy")).text]
    expected.append(draft.invoke(question()).text)
    draft.clear_prefix_cache()
    with ThreadPoolExecutor(3) as pool:
        calls = [
            pool.submit(target.invoke, question(), draft=draft),
            pool.submit(draft.invoke, question("navy")),
            pool.submit(draft.invoke, question(), draft=target),
        ] * 2
        assert [call.result(timeout=60).text for call in calls] == expected * 2


def test_what_cannot_draft_is_refused_in_a_sentence(models, question, demo_weights):
    target, draft = models
    other = ChatTransformers(model=str(demo_weights / "small"), device="cpu")
    with pytest.raises(ModelError, match="tokenizers differ; use two models of one family"):
        target.invoke(question(), draft=other)
    with pytest.raises(ModelError, match="serves greedy decoding only; set temperature to 0"):
        target.invoke(question(), draft=draft, temperature=0.5)
    server = ChatServer(model="m", base_url="http://127.0.0.1:9/v1")
    assert isinstance(target, SupportsDraft)
    assert not isinstance(server, SupportsDraft)
    with pytest.raises(ModelError, match="ChatServer cannot draft for"):
        target.check_draft(server)
    with pytest.raises(ModelError, match="ChatServer cannot draft for"):
        target.invoke(question(), draft=server)


def test_by_the_files_it_is_known_before_anything_is_loaded(models, demo_weights, tmp_path):
    target, draft = models
    assert target.check_draft(draft, files=True) is None
    other = ChatTransformers(model=str(demo_weights / "small"), device="cpu")
    assert target.check_draft(other) is None
    with pytest.raises(ModelError, match="tokenizers differ; use two models of one family"):
        target.check_draft(other, files=True)
    absent = ChatTransformers(model=str(tmp_path / "absent"), device="cpu")
    with pytest.raises(ModelError, match="no model folder"):
        target.check_draft(absent, files=True)
    config = json.loads((Path(target.model) / "config.json").read_text())
    copy = shutil.copytree(target.model, tmp_path / "copy")
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "qwen2_vl"}))
    with pytest.raises(ModelError, match="it cannot take back what it read"):
        target.check_draft(ChatTransformers(model=str(copy), device="cpu"), files=True)


# The loop, on models made up for it.

END = 0
TOKENS = 4


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

    def crop(self, tokens: int) -> None:
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
    limit=st.integers(1, 40),
    enough=st.integers(1, 40),
)
def test_whatever_the_draft_proposes_the_output_is_the_targets_own(seed, right, limit, enough):
    target = MadeUpReader(seed)
    draft, drafted = Guesser(target, seed + 1, right), Drafted()
    tokens: list[int] = []

    def accept(token: int, scores: torch.Tensor) -> bool:
        assert int(scores.argmax()) == token
        tokens.append(token)
        return token != END and len(tokens) < enough

    speculate(target, draft, frozenset({END}), limit, accept, drafted)
    assert tokens == greedy(target, limit, enough)
    assert 0 <= drafted.accepted <= drafted.proposed
    assert drafted.accepted <= max(0, len(tokens) - 1)
    assert draft.passes == drafted.proposed
    # Every pass of the target but the prompt's gives a token of its own behind the accepted ones.
    own = len(tokens) - 1 - drafted.accepted
    assert own <= target.passes <= own + 1


@given(seed=st.integers(0, 10_000))
def test_a_draft_that_is_always_right_saves_passes(seed):
    target = MadeUpReader(seed)
    drafted = Drafted()
    tokens: list[int] = []

    def accept(token: int, _scores: torch.Tensor) -> bool:
        tokens.append(token)
        return True

    draft = Guesser(target, seed, 1.0)
    speculate(target, draft, frozenset(), 1 + 3 * (AHEAD + 1), accept, drafted)
    assert drafted.proposed == drafted.accepted == 3 * AHEAD
    assert target.passes == 3
