"""Which models a profile measures, and how: by name, or as a pair's file runs them."""

import pytest
import yaml

from langgraph_mai.configs import ConfigError
from langgraph_mai.profiling.target import Target, demo_targets, model_target, pair_targets


@pytest.mark.parametrize("backend", ["transformers", "vllm"])
def test_without_a_name_it_is_the_demo_pair_as_it_runs_there(backend):
    small, large = demo_targets(backend)
    assert (small.name, large.name) == ("demo:small", "demo:large")
    for target in (small, large):
        assert (target.backend, target.dtype) == (backend, "float32")
        assert bool(target.engine) == (backend == "vllm")
        assert model_target(target.name, backend) == target


def test_other_models_are_taken_by_their_name():
    assert model_target("Qwen3-VL-2B", "vllm", random_weights=True) == Target(
        "Qwen3-VL-2B", backend="vllm", random_weights=True
    )


def test_a_pair_brings_its_own_settings_and_any_backend_can_run_it(tmp_path):
    file = tmp_path / "mine.yaml"
    models = {
        "small": {"model": "one/small", "dtype": "float16", "revision": "a", "attention": "eager"},
        "large": {"model": "one/large", "backend": "vllm", "engine": {"max_model_len": 4096}},
    }
    models["large"]["memory"] = 0.5
    file.write_text(yaml.safe_dump(models))
    assert pair_targets(str(file), None) == [
        Target(
            "one/small",
            revision="a",
            dtype="float16",
            attention="eager",
            memory=0.3,
        ),
        Target("one/large", backend="vllm", memory=0.5, engine={"max_model_len": 4096}),
    ]
    on_vllm = pair_targets(str(file), "vllm", random_weights=True)
    assert all(target.backend == "vllm" and target.random_weights for target in on_vllm)
    assert on_vllm[0].attention is None  # transformers' name for it


def test_a_pair_on_servers_needs_a_backend_that_can_be_measured():
    with pytest.raises(ConfigError, match="small model of 'demo-server' runs on a server"):
        pair_targets("demo-server", None)
    assert [target.backend for target in pair_targets("demo-server", "vllm")] == ["vllm", "vllm"]
