"""Targets by name or pair; models of real dimensions with random weights and the right sizes."""

from typing import Any

import pytest
import torch
import yaml
from checkpoints import small_dimensions
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, InternVLConfig
from transformers.models.internvl import InternVLVisionConfig
from transformers.models.qwen3_vl.configuration_qwen3_vl import (
    Qwen3VLTextConfig,
    Qwen3VLVisionConfig,
)

from langgraph_mai.configs import ConfigError
from langgraph_mai.models.errors import ModelError
from langgraph_mai.profiling.checkpoints import (
    image_processor,
    list_dimensions,
    load_dimensions,
    model_config,
    random_model,
    shape_only,
    write_checkpoint,
)
from langgraph_mai.profiling.components import open_model
from langgraph_mai.profiling.model_sizes import ModelSizes
from langgraph_mai.profiling.targets import Grid, Target, demo_targets, model_target, pair_targets
from langgraph_mai.profiling.transformers_model import TransformersModel

FAMILIES = ["Qwen3-VL-2B", "InternVL3.5-1B"]


def test_without_a_name_the_target_is_the_demo_pair():
    for backend in ("transformers", "vllm"):
        small, large = demo_targets(backend)
        assert (small.name, large.name) == ("demo:small", "demo:large")
        for target in (small, large):
            assert (target.backend, target.dtype) == (backend, "float32")
            assert bool(target.engine) == (backend == "vllm")
            assert model_target(target.name, backend) == target
    other = model_target("Qwen3-VL-2B", "vllm", random_weights=True)
    assert other == Target("Qwen3-VL-2B", backend="vllm", random_weights=True)


def test_a_pair_brings_its_own_settings_and_any_backend_can_run_it(tmp_path):
    file = tmp_path / "mine.yaml"
    small = {"model": "one/small", "dtype": "float16", "revision": "a", "attention": "eager"}
    large = {"model": "one/large", "backend": "vllm", "engine": {"max_model_len": 4096}}
    file.write_text(yaml.safe_dump({"small": small, "large": large | {"memory": 0.5}}))
    assert pair_targets(str(file), None) == [
        Target("one/small", revision="a", dtype="float16", attention="eager", memory=0.3),
        Target("one/large", backend="vllm", memory=0.5, engine={"max_model_len": 4096}),
    ]
    on_vllm = pair_targets(str(file), "vllm", random_weights=True)
    assert all(target.backend == "vllm" and target.random_weights for target in on_vllm)
    assert on_vllm[0].attention is None  # transformers' name for it
    with pytest.raises(ConfigError, match="small model of 'demo-server' runs on a server"):
        pair_targets("demo-server", None)
    assert [target.backend for target in pair_targets("demo-server", "vllm")] == ["vllm", "vllm"]


def test_engine_options_are_named_in_any_order_and_are_those_of_vllm():
    options = {"enforce_eager": True, "block_size": 32, "speculative_config": {"method": "ngram"}}
    row = Target("known", backend="vllm", engine=options, memory=1 / 3).row
    assert row.engine == 'block_size=32 enforce_eager=true speculative_config={"method": "ngram"}'
    assert row.memory == 0.3333
    turned = dict(reversed(options.items()))
    assert Target("known", backend="vllm", engine=turned, memory=1 / 3).row == row
    elsewhere = Target("known", engine=options, memory=0.4).row
    assert (elsewhere.engine, elsewhere.memory) == ("", None)


def test_dimensions_give_the_published_number_of_parameters():
    for name in list_dimensions():
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
            published = pytest.approx(known.language_parameters, abs=0.05)
            assert (language + output) / 1e9 == published


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
    images = profiled.image_batch(256, 1)
    # Qwen: 32 pixels a side make a token; InternVL: 256 tokens a tile.
    assert images.image_tokens == {"Qwen3-VL-2B": 64, "InternVL3.5-1B": 256}[name]
    assert len(profiled.generate(images, 8, 3)) == 3


@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_without_weights_is_loaded_by_any_engine(name, tmp_path):
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
    grey = Image.new("RGB", (256, 256), (128, 128, 128))
    tokens = processor(images=[grey], text=[text])["input_ids"][0]
    seen = ModelSizes(name, built, processor.image_processor, torch.bfloat16).image_tokens(256)
    assert list(tokens).count(config.image_token_id) == seen
    with open_model(Target(str(folder), random_weights=True, device="cpu"), Grid()) as model:
        assert model.dtype == torch.bfloat16
        assert len(model.generate(model.image_batch(256, 2), 8, 3)) == 3


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _counted(run):
    on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with FlopCounterMode(display=False, custom_mapping={on_cpu: _attention_flops}) as counter:
        run()
    return counter.get_total_flops()


def test_sizes_and_operations_are_as_the_model_has_them(checkpoint):
    """They are known before anything runs; engines in other processes have only these."""
    with open_model(Target(str(checkpoint), dtype="float32", device="cpu"), Grid()) as model:
        sizes = model.sizes
        for side in (64, 100, 300):
            images = model.image_batch(side, 2)
            values = images.tensors["pixel_values"]
            width = values.shape[-1] if values.dim() == 2 else 3 * 14 * 14
            assert values.numel() == 2 * sum(sizes.patches(side)) * width
            assert images.image_tokens == sizes.image_tokens(side)
        images = model.image_batch(100, 2)
        vision = sizes.vision_flops(100, 2)
        assert vision == pytest.approx(_counted(lambda: model.encode(images)), rel=0.05)
        prefill = _counted(lambda: model.generate(images, 40, 1))
        tokens = images.image_tokens + 40
        assert vision + sizes.prefill_flops(tokens, 2) == pytest.approx(prefill, rel=0.1)
        more = _counted(lambda: model.generate(images, 40, 2)) - prefill
        assert sizes.step_flops(tokens + 1, 2) == pytest.approx(more, rel=0.02)


def test_what_cannot_be_built_is_refused_before(monkeypatch):
    for wrong in ({"dtype": "half8"}, {"device": "tpu9000"}):
        ((name, value),) = wrong.items()
        target = Target("Qwen3-VL-2B", random_weights=True, **{"device": "cpu"} | wrong)
        with (
            pytest.raises(ModelError, match=f"{name} {value!r} is not known"),
            open_model(target, Grid()),
        ):
            pass
    target = Target("Qwen3-VL-8B", random_weights=True, device="cpu")
    monkeypatch.setattr("langgraph_mai.profiling.checkpoints.free_memory", lambda _: 10**9)
    with (
        pytest.raises(ModelError, match=r"needs 17\.5 GB .* bfloat16 and 1\.0 GB are free"),
        open_model(target, Grid()),
    ):
        pass
