"""Models of real dimensions without a download: the right sizes, whole, and readable as folders."""

import pytest
import torch
from checkpoints import small_dimensions
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, InternVLConfig
from transformers.models.internvl import InternVLVisionConfig
from transformers.models.qwen3_vl.configuration_qwen3_vl import (
    Qwen3VLTextConfig,
    Qwen3VLVisionConfig,
)

from langgraph_mai.configs import ConfigError
from langgraph_mai.models.errors import ModelError
from langgraph_mai.profiling.dimensions import list_dimensions, load_dimensions
from langgraph_mai.profiling.grid import Grid
from langgraph_mai.profiling.model_sizes import ModelSizes
from langgraph_mai.profiling.profile_run import open_model
from langgraph_mai.profiling.random_checkpoint import write_checkpoint
from langgraph_mai.profiling.random_weights import (
    image_processor,
    model_config,
    random_model,
    shape_only,
)
from langgraph_mai.profiling.target import Target
from langgraph_mai.profiling.transformers_model import TransformersModel

FAMILIES = ["Qwen3-VL-2B", "InternVL3.5-1B"]


@pytest.mark.parametrize("name", list_dimensions())
def test_dimensions_give_the_published_number_of_parameters(name):
    known = load_dimensions(name)
    shape = shape_only(model_config(known))
    sizes = ModelSizes(name, shape, image_processor(known), torch.bfloat16)
    # The model cards round to a tenth of a billion.
    assert sizes.parameters / 1e9 == pytest.approx(known.parameters, abs=0.05)
    assert sizes.total_bytes == 2 * sizes.parameters
    assert sizes.context == known.context
    if known.language_parameters:
        output = 0 if known.tied_embeddings else shape.lm_head.weight.numel()
        language = sum(weight.numel() for weight in shape.model.language_model.parameters())
        assert (language + output) / 1e9 == pytest.approx(known.language_parameters, abs=0.05)


def test_dimensions_are_those_that_transformers_has_as_defaults():
    """The defaults of its configuration classes are of one published model each."""
    intern_vit, qwen_vit = InternVLVisionConfig(), Qwen3VLVisionConfig()
    for name in list_dimensions():
        known = load_dimensions(name)
        built = model_config(known)
        if known.family == "internvl":
            assert built.vision_config.to_dict() == intern_vit.to_dict()
            assert built.image_seq_length == InternVLConfig().image_seq_length
            assert built.downsample_ratio == InternVLConfig().downsample_ratio
            continue
        shared = ("patch_size", "spatial_merge_size", "temporal_patch_size", "in_channels")
        for field in (*shared, "num_position_embeddings", "num_heads", "hidden_act"):
            assert getattr(built.vision_config, field) == getattr(qwen_vit, field)
        assert built.vision_config.out_hidden_size == built.text_config.hidden_size
        assert built.text_config.vocab_size == Qwen3VLTextConfig().vocab_size
        assert built.text_config.head_dim == Qwen3VLTextConfig().head_dim
    largest = load_dimensions("Qwen3-VL-8B").vision
    assert qwen_vit.to_dict() | largest == qwen_vit.to_dict() | {
        "deepstack_visual_indexes": list(qwen_vit.deepstack_visual_indexes)
    }


def test_hub_names_find_dimensions_and_unknown_ones_are_refused():
    assert load_dimensions("Qwen/Qwen3-VL-2B-Instruct") == load_dimensions("Qwen3-VL-2B")
    assert load_dimensions("OpenGVLab/InternVL3_5-8B-HF") == load_dimensions("InternVL3.5-8B")
    with pytest.raises(ConfigError, match="Qwen3-VL-2B, "):
        load_dimensions("Qwen3-VL-3B")


@pytest.mark.parametrize("name", FAMILIES)
def test_random_weights_are_filled_whole_and_run(name):
    known = small_dimensions(name)
    built = random_model(model_config(known), torch.float32, torch.device("cpu"), "sdpa")
    for weight in built.parameters():
        assert torch.isfinite(weight).all()
        assert weight.detach().std().item() == pytest.approx(0.02, rel=0.5)
    profiled = TransformersModel(name, built, image_processor(known))
    pictures = profiled.pictures(256, 1)
    # Qwen: 32 pixels a side make a token; InternVL: 256 tokens a tile.
    assert pictures.image_tokens == {"Qwen3-VL-2B": 64, "InternVL3.5-1B": 256}[name]
    assert len(profiled.write(pictures, 8, 3)) == 3


@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_without_weights_is_read_by_any_engine(name, tmp_path):
    folder = write_checkpoint(small_dimensions(name), tmp_path / "model")
    assert not list(folder.glob("*.safetensors"))
    config, processor = AutoConfig.from_pretrained(folder), AutoProcessor.from_pretrained(folder)
    with torch.device("meta"):
        built = AutoModelForImageTextToText.from_config(config)
    assert config.architectures == [type(built).__name__]
    assert config.dtype == torch.bfloat16
    ids = processor.tokenizer.convert_tokens_to_ids
    assert ids(processor.image_token) == config.image_token_id
    turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Who?"}]}
    text = processor.apply_chat_template([turn], add_generation_prompt=True, tokenize=False)
    tokens = processor(images=[_grey()], text=[text])["input_ids"][0]
    seen = ModelSizes(name, built, processor.image_processor, torch.bfloat16).image_tokens(256)
    assert list(tokens).count(config.image_token_id) == seen


def _grey():
    from PIL import Image

    return Image.new("RGB", (256, 256), (128, 128, 128))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_folders_own_dimensions_can_have_random_weights(name, tmp_path):
    folder = write_checkpoint(small_dimensions(name), tmp_path / "model")
    with open_model(Target(str(folder), random_weights=True, device="cpu"), Grid()) as model:
        assert model.dtype == torch.bfloat16
        assert len(model.write(model.pictures(256, 2), 8, 3)) == 3


@pytest.mark.parametrize("side", [64, 100, 300])
def test_sizes_are_known_before_anything_runs(checkpoint, side):
    """What a picture takes is computed as the processor does it."""
    with open_model(Target(str(checkpoint), dtype="float32", device="cpu"), Grid()) as model:
        pictures = model.pictures(side, 2)
        values = pictures.tensors["pixel_values"]
        patches = 2 * sum(model.sizes.patches(side))
        width = values.shape[-1] if values.dim() == 2 else 3 * 14 * 14
        assert values.numel() == patches * width
        assert pictures.image_tokens == model.sizes.image_tokens(side)


def test_operations_are_estimated_as_torch_counts_them(checkpoint):
    """Engines in other processes have only the estimate."""
    with open_model(Target(str(checkpoint), dtype="float32", device="cpu"), Grid()) as model:
        pictures, sizes = model.pictures(100, 2), model.sizes
        counted = model.flops(lambda: model.encode(pictures))
        assert sizes.vision_flops(100, 2) == pytest.approx(counted, rel=0.05)

        read = model.flops(lambda: model.write(pictures, 40, 1))
        tokens = pictures.image_tokens + 40
        estimate = sizes.vision_flops(100, 2) + sizes.prefill_flops(tokens, 2)
        assert estimate == pytest.approx(read, rel=0.1)

        more = model.flops(lambda: model.write(pictures, 40, 2))
        assert sizes.step_flops(tokens + 1, 2) == pytest.approx(more - read, rel=0.02)


def test_a_model_that_does_not_fit_is_refused_before_it_is_built(monkeypatch):
    target = Target("Qwen3-VL-8B", random_weights=True, device="cpu")
    monkeypatch.setattr("langgraph_mai.profiling.model_source.free_memory", lambda _: 10**9)
    with (
        pytest.raises(ModelError, match=r"needs 17\.5 GB .* bfloat16 and 1\.0 GB are free"),
        open_model(target, Grid()),
    ):
        pass


def test_a_dtype_or_device_that_is_unknown_is_refused():
    for wrong in ({"dtype": "half8"}, {"device": "tpu9000"}):
        ((name, value),) = wrong.items()
        target = Target("Qwen3-VL-2B", random_weights=True, **{"device": "cpu"} | wrong)
        with (
            pytest.raises(ModelError, match=f"{name} {value!r} is not known"),
            open_model(target, Grid()),
        ):
            pass
