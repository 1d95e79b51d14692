import json

import pytest
import torch
from checkpoints import save_internvl, save_qwen3_vl
from PIL import Image
from typer.testing import CliRunner

from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.transformers.checkpoint import load_checkpoint
from langgraph_mai.models.transformers.loaded_models import gate
from langgraph_mai.models.transformers.model_spec import ModelSpec
from langgraph_mai.models.transformers_chat import ChatTransformers
from langgraph_mai.profiling.decoding_comparison import compare_decoding
from langgraph_mai.profiling.speculative import SpeculativeDecoder
from langgraph_mai.tools.cli import app

TURNS = [
    {
        "role": "user",
        "content": [{"type": "image"}, {"type": "text", "text": "What is in the picture?"}],
    }
]


def load(folder):
    return load_checkpoint(ModelSpec(str(folder), dtype="float32", device="cpu"), gate)


@pytest.fixture(scope="module", params=[save_qwen3_vl, save_internvl])
def checkpoints(request, tmp_path_factory):
    """A target, and a draft that writes something else."""
    folders = [tmp_path_factory.mktemp("speculative") for _ in range(2)]
    return [load(request.param(folder, seed)) for seed, folder in enumerate(folders)]


@pytest.fixture
def pictures():
    return [Image.new("RGB", (128, 128), color) for color in ("red", "navy")]


@pytest.mark.parametrize("ahead", [1, 2, 5, 40])
def test_the_output_is_the_targets_own_whatever_the_draft_writes(checkpoints, pictures, ahead):
    target, draft = checkpoints
    for picture in pictures:
        alone = SpeculativeDecoder(target).write(TURNS, [picture], 40)
        written = SpeculativeDecoder(target, draft, ahead).write(TURNS, [picture], 40)
        assert written.tokens == alone.tokens
        assert written.accepted < written.drafted
        assert alone.drafted == 0


def test_the_output_is_that_of_transformers(checkpoints, pictures):
    target, draft = checkpoints
    processor = target.processor
    text = processor.apply_chat_template(TURNS, add_generation_prompt=True, tokenize=False)
    inputs = processor(text=[text], images=pictures[:1], return_tensors="pt")
    inputs = {key: value for key, value in inputs.items() if torch.is_tensor(value)}
    inputs.pop("num_patches", None)
    written = SpeculativeDecoder(target, draft).write(TURNS, pictures[:1], 30)
    expected = target.model.generate(**inputs, max_new_tokens=30, do_sample=False)
    assert written.tokens == expected[0, inputs["input_ids"].shape[1] :].tolist()


def test_a_twin_is_always_right_so_the_draft_sees_the_picture(checkpoints, pictures):
    target = checkpoints[0]
    twin = load(target.name)
    outputs = set()
    for picture in pictures:
        written = SpeculativeDecoder(target, twin, 4).write(TURNS, [picture], 21)
        assert written.accepted == written.drafted > 0
        outputs.add(tuple(written.tokens))
    assert len(outputs) == len(pictures)  # what is written depends on the picture


def test_a_draft_of_another_tokenizer_is_refused(qwen_checkpoint, demo_weights):
    with pytest.raises(ModelError, match="tokenizers differ"):
        SpeculativeDecoder(load(qwen_checkpoint), load(demo_weights / "small"))


def test_three_ways_to_answer_are_compared_on_the_demo_pair(tmp_path):
    plain, speculative, mai = compare_decoding(3, tmp_path)
    assert speculative.equal == speculative.questions == 3
    assert 0 < speculative.accept_rate <= 1
    assert speculative.accuracy == plain.accuracy
    assert min(plain.seconds, speculative.seconds, mai.seconds) > 0


def test_plain_decoding_is_what_the_chat_model_writes(tmp_path, demo_weights, pictures):
    folder = str(demo_weights / "large")
    picture = tmp_path / "picture.png"
    pictures[0].save(picture)
    content = [
        {"type": "image", "url": str(picture)},
        {"type": "text", "text": "Is there a red star in the picture?"},
    ]
    chat = ChatTransformers(model=folder, dtype="float32", device="cpu", max_tokens=20)
    answer = chat.invoke([{"role": "user", "content": content}])
    turns = [{"role": "user", "content": [{"type": "image"}, content[1]]}]
    written = SpeculativeDecoder(load(folder)).write(turns, pictures[:1], 20)
    assert written.text.strip() == answer.text.strip()


def test_the_command_adds_the_comparison(tmp_path):
    words = ["--image-side", "64", "--query-tokens", "8", "--output-tokens", "2", "--repeats", "1"]
    shown = CliRunner().invoke(
        app, ["profile", *words, "--decoding", "2", "--json", "--out", str(tmp_path)]
    )
    values = {record["name"]: record["value"] for record in json.loads(shown.stdout)}
    assert values["decoding.speculative.equal_to_plain"] == 2
    assert values["decoding.mai.total"] > 0
    assert "(Table 12)" in (tmp_path / "profile.md").read_text()
