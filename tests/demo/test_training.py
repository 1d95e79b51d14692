"""The training: its fast forward passes are the models' own, and it can be stopped and resumed."""

from random import Random

import numpy as np
import pytest
import torch
from PIL import Image

from langgraph_mai.configs import load_prompts
from langgraph_mai.demo.questions import KINDS, ask
from langgraph_mai.demo.scenes import draw, sample_scene
from langgraph_mai.demo.training.batches import Batches, Mix, Packer, visible
from langgraph_mai.demo.training.checkpoint import build_model, build_processor, build_tokenizer
from langgraph_mai.demo.training.examples import Reasoning, Tutor
from langgraph_mai.demo.training.forward import language_forward, to_patches, vision_forward
from langgraph_mai.demo.training.language_stage import LanguagePlan, train_language
from langgraph_mai.demo.training.pools import LABELS, cell_labels, load_pool, make_pool
from langgraph_mai.demo.training.reasonings import load_reasonings
from langgraph_mai.demo.training.stages import STAGES, Sizes, train
from langgraph_mai.demo.training.vision_stage import VisionPlan

HARD_KINDS = ("count", "compare", "choice", "walks")
MIX = Mix(2, {"reason": 0.4, "explain": 0.1, "list": 0.1, "transfer": 0.4})


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    path = tmp_path_factory.mktemp("pool") / "pool.npy"
    make_pool(path, 60, 1)
    return load_pool(path)


@pytest.fixture(scope="module")
def model():
    """Untrained, with weights large enough that the picture decides about the output."""
    model = build_model("large", 1).eval()
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            parameter.data.mul_(3)
    return model


def test_any_text_survives_the_tokenizer():
    tokenizer = build_tokenizer()
    for text in ("How many red stars?\n", "row 1 - yes = 12", "Größe 图 57 \t end", "  "):
        assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_the_world_is_told_in_whole_words(pool):
    tokenizer, rng = build_tokenizer(), Random(1)
    tutor = Tutor(pool, 0.5)
    for index in range(40):
        example = tutor.styled(index, "reason", rng)
        tokens = tokenizer.tokenize(example.prompt + example.answer)
        assert len(tokens) <= len((example.prompt + example.answer).split()) + 30


def test_the_packed_forward_is_the_models_own(pool, model):
    processor, packer = build_processor(), Packer()
    tutor, rng = Tutor(pool, 0.5), Random(5)
    rows = []
    for index in range(3):
        moved, transfer = tutor.transfer(index, rng)
        rows.append((moved, [tutor.styled(moved, "direct", rng), transfer]))
    batch = packer.pack(rows, MIX)
    pictures = pool.pictures[batch.pictures.numpy()]
    with torch.no_grad():
        image, deep = vision_forward(model.model.visual, to_patches(pictures))
        hidden = language_forward(
            model, batch.ids, image, deep, batch.positions, visible(batch.segments)
        )
        for row, (_, examples) in enumerate(rows):
            for segment, example in enumerate(examples, 1):
                content = [
                    {"type": "image", "image": Image.fromarray(pictures[row])},
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
                place = (batch.segments[row] == segment).nonzero()[0, 0]
                length = len(packer_ids(example.prompt))
                packed = model.lm_head(hidden[row, place + length - 1])
                assert torch.allclose(packed, own, atol=1e-3)


def packer_ids(prompt):
    return build_tokenizer()(prompt + "<|im_end|>\n<|im_start|>assistant\n").input_ids


def test_labels_follow_the_scene():
    rng = Random(1)
    for _ in range(50):
        labels = cell_labels(sample_scene(rng))
        assert len(labels) == 25
        assert all(0 <= label < LABELS for label in labels)


def test_a_step_has_the_same_batch_every_time(pool):
    first, second = (Batches(Tutor(pool, 0.4), 4, 7, MIX, MIX, 0)[3] for _ in range(2))
    assert torch.equal(first.ids, second.ids)
    assert torch.equal(first.labels, second.labels)


def test_transfers_hold_real_reasonings_and_as_many_wrong_ones_as_asked(pool):
    rng = Random(1)
    plain = Tutor(pool, 0.5)
    real = []
    for index in range(60):
        _, example = plain.transfer(index, rng)
        assert load_prompts("demo").direct.instruction not in example.prompt
        assert example.quoted in example.prompt
        assert example.kind in KINDS
    for _ in range(30):
        question = None
        while question is None:
            index = rng.randrange(60)
            question = ask(pool.scenes[index], rng.choice(KINDS), rng)
        real.append(Reasoning(index, question, "I saw it.\nAnswer: 99", wrong=True))
        real.append(Reasoning(index, question, "I saw it all.", wrong=False))
    tutor = Tutor(pool, 0.5, real)
    quoted = [tutor.transfer(0, rng)[1].quoted for _ in range(300)]
    wrong = sum(text == "I saw it.\nAnswer: 99" for text in quoted) / 300
    right = sum(text == "I saw it all." for text in quoted) / 300
    assert 0.3 < wrong < 0.5
    assert 0.3 < right < 0.5


def test_hard_kinds_and_grids_come_as_often_as_asked(pool):
    rng = Random(1)
    tutor = Tutor(pool, 0.5, chart_share=0.1, kind_weights=dict.fromkeys(HARD_KINDS, 3.0))
    examples = [tutor.styled(tutor.picture(rng), "direct", rng) for _ in range(600)]
    kinds = [example.kind for example in examples]
    assert 0.05 < sum(kind.startswith("bar") for kind in kinds) / 600 < 0.15
    hard = sum(kind in HARD_KINDS for kind in kinds)
    easy = sum(kind in ("exist", "attribute") for kind in kinds)
    assert hard > 3 * easy


def plan(steps, **changes):
    return LanguagePlan(steps, 2, MIX, MIX, compiled=False, **changes)


def test_a_stopped_training_resumes_to_the_same_weights(pool, tmp_path):
    class StoppedError(Exception):
        pass

    def stop_at_the_end(line):
        raise StoppedError

    build_model("small", 3).save_pretrained(tmp_path / "start")
    arguments = (tmp_path / "start", pool)
    train_language(*arguments, tmp_path / "whole", plan(6, save_every=4), 1, print)
    with pytest.raises(StoppedError):
        train_language(*arguments, tmp_path / "again", plan(6, save_every=4), 1, stop_at_the_end)
    assert not (tmp_path / "again").exists()
    train_language(*arguments, tmp_path / "again", plan(6, save_every=4), 1, print)
    whole, again = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "again")
    )
    assert whole == again
    assert not list(tmp_path.glob("*.state.pt"))


def test_one_command_makes_the_pair(tmp_path):
    vision = VisionPlan(2, batch=4, held_out=8, compiled=False)
    alone = plan(2, workers=0)
    sizes = Sizes(40, 40, 12, vision, vision, plan(2), alone, alone, alone)
    train(tmp_path, sizes, jobs=1)
    assert all((tmp_path / stage.makes).exists() for stage in STAGES)
    written = load_reasonings(tmp_path / "reasonings.pkl")
    assert len(written) == 12
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    train(tmp_path, sizes, jobs=1)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_a_picture_looks_the_same_to_training_and_processor(model):
    rng = Random(1)
    picture = draw(sample_scene(rng), rng)
    inputs = build_processor().image_processor(picture, return_tensors="pt")
    still = inputs["pixel_values"].view(100, 3, 2, 256)[:, :, 0].reshape(100, 768)
    assert torch.allclose(still, to_patches(np.asarray(picture)[None])[0], atol=1e-5)
