"""Speculative decoding: the target's own output, whatever its draft proposes."""

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from asked import ask as asked
from asked import picture
from checkpoints import save_internvl, save_qwen3_vl

from langgraph_mai.models.capabilities import SupportsDraft
from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.server import ChatServer
from langgraph_mai.models.transformers.chat import ChatTransformers

QUESTIONS = [asked("What is it?", picture(colour)) for colour in ("red", "blue", "black", "green")]
QUESTION = QUESTIONS[0]


@pytest.fixture(scope="module", params=[save_qwen3_vl, save_internvl])
def models(request, tmp_path_factory):
    """A target, and a draft that writes something else."""
    folders = [tmp_path_factory.mktemp("drafts") for _ in range(2)]
    return tuple(
        ChatTransformers(model=str(request.param(folder, seed)), device="cpu", max_tokens=30)
        for seed, folder in enumerate(folders)
    )


def entries(message):
    return message.response_metadata["logprobs"]["content"]


def test_the_answer_is_the_one_without_a_draft(models, ask):
    target, draft = models
    expected = target.invoke(QUESTION).text
    assert ask(target, QUESTION, draft=draft) == expected
    assert ask(target.model_copy(update={"draft": draft}), QUESTION) == expected


def test_limits_log_probabilities_and_counts_are_those_without_a_draft(models):
    target, draft = models
    for proposing in (draft, target.model_copy()):  # its twin is always right
        for limit in (1, 2, 6, 7, 30):
            wanted = {"max_tokens": limit, "logprobs": True, "top_logprobs": 3}
            message = target.invoke(QUESTION, draft=proposing, **wanted)
            plain = target.invoke(QUESTION, **wanted)
            assert message.text == plain.text
            said, own = message.response_metadata, plain.response_metadata
            assert said["finish_reason"] == own["finish_reason"] == "length"
            assert message.usage_metadata["output_tokens"] == limit
            for one, other in zip(entries(message), entries(plain), strict=True):
                assert one["token"] == other["token"]
                assert one["logprob"] == pytest.approx(other["logprob"], abs=1e-4)
                tops = [[top["token"] for top in each["top_logprobs"]] for each in (one, other)]
                assert tops[0] == tops[1]
            assert "drafted_tokens" not in own
        drafted, accepted = said["drafted_tokens"], said["accepted_tokens"]
        assert (0 <= accepted < drafted) if proposing is draft else (accepted == drafted > 20)
        *_, last = target.stream(QUESTION, draft=proposing)
        assert last.response_metadata["drafted_tokens"] == drafted


def test_outputs_end_where_they_do_without_a_draft(models):
    """At any stop string: in the middle of what was proposed, and at its end."""
    target, draft = models
    text = target.invoke(QUESTION).text
    for at in range(2, len(text) - 2, 7):
        stop = [text[at : at + 2]]
        plain = target.invoke(QUESTION, stop=stop)
        for proposing in (draft, target.model_copy()):
            message = target.invoke(QUESTION, stop=stop, draft=proposing)
            assert message.text == plain.text
            assert message.response_metadata["finish_reason"] == "stop"
            assert message.usage_metadata == plain.usage_metadata | {
                "input_token_details": {"cache_read": 0}
            }


def test_calls_with_and_without_a_draft_mix_and_models_draft_for_each_other(models):
    target, draft = models
    expected = [target.invoke(one).text for one in QUESTIONS]
    assert [one.text for one in target.batch(QUESTIONS, draft=draft)] == expected

    async def mixed():
        calls = [
            target.ainvoke(one, draft=draft if number % 2 else None)
            for number, one in enumerate(QUESTIONS * 3)
        ]
        return [message.text for message in await asyncio.gather(*calls)]

    assert asyncio.run(mixed()) == expected * 3
    own = [expected[0], draft.invoke(QUESTIONS[1]).text, draft.invoke(QUESTION).text]
    with ThreadPoolExecutor(3) as pool:  # neither waits for the other
        calls = [
            pool.submit(target.invoke, QUESTION, draft=draft),
            pool.submit(draft.invoke, QUESTIONS[1]),
            pool.submit(draft.invoke, QUESTION, draft=target),
        ] * 2
        assert [call.result(timeout=60).text for call in calls] == own * 2


def test_what_cannot_draft_is_refused_in_a_sentence(models, demo_weights, tmp_path):
    target, draft = models
    other = ChatTransformers(model=str(demo_weights / "small"), device="cpu")
    server = ChatServer(model="m", base_url="http://127.0.0.1:9/v1")
    absent = ChatTransformers(model=str(tmp_path / "absent"), device="cpu")
    config = json.loads((Path(target.model) / "config.json").read_text())
    copy = shutil.copytree(target.model, tmp_path / "copy")
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "qwen2_vl"}))
    uncut = ChatTransformers(model=str(copy), device="cpu")
    assert isinstance(target, SupportsDraft)
    assert not isinstance(server, SupportsDraft)
    for call, words in (
        (lambda: target.invoke(QUESTION, draft=other), "tokenizers differ; use two models of one"),
        (lambda: target.invoke(QUESTION, draft=server), "ChatServer cannot draft for"),
        (lambda: target.invoke(QUESTION, draft=draft, temperature=0.5), "set temperature to 0"),
        # By the files it is known before anything is loaded.
        (lambda: target.check_draft(server), "ChatServer cannot draft for"),
        (lambda: target.check_draft(other, files=True), "tokenizers differ; use two models of one"),
        (lambda: target.check_draft(absent, files=True), "no model folder"),
        (lambda: target.check_draft(uncut, files=True), "it cannot take back what it read"),
    ):
        with pytest.raises(ModelError, match=words):
            call()
    assert target.check_draft(draft, files=True) is target.check_draft(other) is None
