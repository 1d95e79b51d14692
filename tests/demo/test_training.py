"""The training: its fast forward passes are the models' own, and it can be stopped and resumed."""

import re
from collections import Counter
from random import Random

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

from langgraph_mai.configs import load_prompts
from langgraph_mai.demo.questions import KINDS
from langgraph_mai.demo.scenes import draw, sample_scene
from langgraph_mai.demo.training.batches import Batches, Mix, Packer, visible
from langgraph_mai.demo.training.checkpoint import (
    build_model,
    build_processor,
    build_tokenizer,
    warm_start,
)
from langgraph_mai.demo.training.examples import Reasoning, Tutor
from langgraph_mai.demo.training.forward import language_forward, to_patches, vision_forward
from langgraph_mai.demo.training.language_stage import LanguagePlan, train_language
from langgraph_mai.demo.training.stages import Plan, image_pool, train
from langgraph_mai.demo.training.vision_stage import LABELS, VisionPlan, cell_labels

ALL = dict.fromkeys((*KINDS, "form"), 1.0)
MIX = Mix(2, {"reason": 0.4, "explain": 0.1, "list": 0.1, "transfer": 0.4}, ALL)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return image_pool(tmp_path_factory.mktemp("pool") / "pool.npy", 60, 1)


@pytest.fixture(scope="module")
def model():
    """Untrained, with weights large enough that the image decides about the output."""
    model = build_model("large", 1).eval()
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            parameter.data.mul_(3)
    return model


def test_any_text_survives_the_tokenizer_and_the_worlds_own_is_whole_words(pool):
    tokenizer, rng, tutor = build_tokenizer(), Random(1), Tutor(pool[0], 0.5)
    for text in ("How many red stars?\n", "row 1 - yes = 12", "Größe 图 57 \t end", "  "):
        assert tokenizer.decode(tokenizer(text).input_ids) == text
    for _ in range(60):
        _, example = tutor.long("reason", dict.fromkeys(KINDS, 1.0), rng)
        letters = [token for token in tokenizer.tokenize(example.prompt) if token.islower()]
        assert all(len(token.strip("Ġ")) > 1 for token in letters)


def test_the_packed_forward_is_the_models_own(pool, model):
    scenes, images = pool
    processor, tutor, rng = build_processor(), Tutor(scenes, 0.5), Random(5)
    rows = []
    for _ in range(3):
        index, transfer = tutor.long("transfer", ALL, rng)
        rows.append((index, [tutor.direct(index, ALL, rng), transfer]))
    batch = Packer().pack(rows, MIX)
    shown = images[batch.images.numpy()]
    with torch.no_grad():
        image, deep = vision_forward(model.model.visual, to_patches(shown))
        mask = visible(batch.segments)
        hidden = language_forward(model, batch.ids, image, deep, batch.positions, mask)
        for row, (_, examples) in enumerate(rows):
            for segment, example in enumerate(examples, 1):
                content = [
                    {"type": "image", "image": Image.fromarray(shown[row])},
                    {"type": "text", "text": example.prompt},
                ]
                inputs = processor.apply_chat_template(
                    [{"role": "user", "content": content}],
                    tokenize=True,
                    add_generation_prompt=True,
                    return_dict=True,
                    return_tensors="pt",
                )
                own = model(**inputs).logits[0, -1]
                start = (batch.segments[row] == segment).nonzero()[0, 0]
                text = example.prompt + "<|im_end|>\n<|im_start|>assistant\n"
                end = start + len(build_tokenizer()(text).input_ids) - 1
                assert torch.allclose(model.lm_head(hidden[row, end]), own, atol=1e-3)


def test_an_image_is_the_same_to_training_and_processor():
    rng = Random(1)
    image = draw(sample_scene(rng), rng)
    inputs = build_processor().image_processor(image, return_tensors="pt")
    still = inputs["pixel_values"].view(100, 3, 2, 256)[:, :, 0].reshape(100, 768)
    assert torch.allclose(still, to_patches(np.asarray(image)[None])[0], atol=1e-5)


def test_labels_follow_the_scene():
    rng = Random(1)
    labels = np.array([cell_labels(sample_scene(rng)) for _ in range(50)])
    assert labels.shape == (50, 25)
    assert labels.min() >= 0
    assert labels.max() < LABELS


def test_a_batch_follows_from_its_step_and_weighs_as_asked(pool):
    mixes = ((0, MIX), (3, Mix(1, {"transfer": 1.0}, ALL, direct_weight=0.25)))
    first, second = (Batches(Tutor(pool[0], 0.4), 4, 7, mixes)[3] for _ in range(2))
    assert torch.equal(first.ids, second.ids)
    assert torch.equal(first.labels, second.labels)
    direct = torch.tensor([name.startswith("direct") for name in first.names] + [False])
    assert first.weights[direct[first.owners]].sum() == pytest.approx(0.25)
    assert first.weights.sum() == pytest.approx(1.25)
    assert {name.split()[0] for name in first.names} <= {"direct", "transfer", "misled"}


def test_transfers_hold_real_reasonings_and_as_many_wrong_ones_as_asked(pool):
    rng, plain, real = Random(1), Tutor(pool[0], 0.5), []
    for _ in range(60):
        _, example = plain.long("transfer", ALL, rng)
        assert load_prompts("demo").direct.instruction not in example.prompt
        assert example.quoted in example.prompt
        assert example.kind in ALL
        index, question = plain.pick(ALL, rng)
        real.append(Reasoning(index, question, "I saw it.\nAnswer: 99", wrong=True))
        real.append(Reasoning(index, question, "I saw it all.", wrong=False))
    tutor = Tutor(pool[0], 0.5, real)
    quoted = Counter(tutor.long("transfer", ALL, rng)[1].quoted for _ in range(300))
    assert 90 < quoted["I saw it.\nAnswer: 99"] < 150
    assert 90 < quoted["I saw it all."] < 150


def test_kinds_come_as_often_as_asked_and_forms_in_batches_of_their_own(pool):
    kinds = {"walks": 3.0, "count": 1.0, "bar_sum": 1.0, "form": 1.0}
    batches = Batches(Tutor(pool[0]), 8, 7, ((0, Mix(0, {"reason": 1.0}, kinds)),))
    drawn = [[name.split()[1] for name in batches[step].names] for step in range(60)]
    assert all("form" not in names or set(names) == {"form"} for names in drawn)
    shares = Counter(name for names in drawn for name in names)
    for kind, weight in kinds.items():
        assert shares[kind] / 480 == pytest.approx(weight / 6, abs=0.15)


def test_a_form_is_asked_for_by_the_line_of_the_graph(pool):
    tutor, rng = Tutor(pool[0]), Random(3)
    _, example = tutor.long("reason", {"form": 1.0}, rng)
    assert re.search(r'Answer with JSON: \{"\w+": (number|string)', example.prompt)


def plan(steps, **changes):
    return LanguagePlan(steps, ((0, MIX),), rows=2, compiled=False, **changes)


def test_a_stopped_training_resumes_to_the_same_weights(pool, tmp_path):
    class StoppedError(Exception):
        pass

    def stop_at_the_end(line):
        raise StoppedError

    def learn(name, log):
        model, six = build_model("small", 3), plan(6, save_every=4)
        train_language(model, *pool, tmp_path / name, six, 1, log)

    learn("whole", print)
    with pytest.raises(StoppedError):
        learn("again", stop_at_the_end)
    assert not (tmp_path / "again").exists()
    learn("again", print)
    whole, again = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "again")
    )
    assert whole == again
    assert not list(tmp_path.glob("*.state.pt"))


def test_one_command_makes_the_pair_and_run_again_keeps_it(tmp_path):
    vision, language = VisionPlan(2, batch=4, held_out=8, compiled=False), plan(2, workers=0)
    plans = {
        "small": Plan(40, vision, language),
        "large": Plan(40, vision, language, language, reasonings=12),
    }
    train(tmp_path, plans)
    release = tmp_path / "release"
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path != release}
    train(tmp_path, plans)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert all((release / role / "model.safetensors").exists() for role in plans)


def test_a_pair_is_trained_further_from_the_words_that_it_knows(demo_weights):
    known = AutoTokenizer.from_pretrained(demo_weights / "small").get_vocab()
    old = Qwen3VLForConditionalGeneration.from_pretrained(demo_weights / "small", dtype="float32")
    model = warm_start("small", demo_weights / "small", 1)
    words = build_tokenizer().get_vocab()
    for token in words.keys() & known.keys():
        assert torch.equal(model.lm_head.weight[words[token]], old.lm_head.weight[known[token]]), (
            token
        )
    kept, own = old.model.visual.state_dict(), model.model.visual.state_dict()
    assert all(torch.equal(own[name], value) for name, value in kept.items())
