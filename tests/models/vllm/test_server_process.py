"""How a server is started: its command line and environment. Nothing here starts vLLM."""

import json

import pytest

from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.vllm.options import EngineSpec, check_engine_options, options_json
from langgraph_mai.models.vllm.server_process import ServerSpec


def spec(name="org/small", gpu=None, api_key=None, **engine_options):
    engine = EngineSpec(
        model="/weights/small",
        revision=None,
        dtype="bfloat16",
        device="auto",
        memory=0.25,
        max_images=3,
        options=options_json(engine_options),
    )
    return ServerSpec(name, engine, host="127.0.0.1", port=8101, gpu=gpu, api_key=api_key)


def test_the_command_line_carries_the_settings_of_the_pair():
    command = spec().command()
    assert {"/weights/small"} & set(command)
    for flag in (
        "--served-model-name=org/small",
        "--dtype=bfloat16",
        "--gpu-memory-utilization=0.25",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        '--limit-mm-per-prompt={"image": 3, "video": 0}',
        "--max-model-len=-1",
        "--host=127.0.0.1",
        "--port=8101",
    ):
        assert flag in command
    assert not [word for word in command if word.startswith("--revision")]


def test_engine_options_become_flags():
    command = spec(
        max_model_len=4096,
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=False,
        hf_overrides={"a": 1},
        cudagraph_capture_sizes=[1, 2],
        seed=None,
    ).command()
    for flag in (
        "--max-model-len=4096",
        "--enforce-eager",
        "--no-enable-prefix-caching",
        '--hf-overrides={"a": 1}',
    ):
        assert flag in command
    at = command.index("--cudagraph-capture-sizes")
    assert command[at + 1 : at + 3] == ["1", "2"]
    for name in ("--max-model-len=-1", "--enable-prefix-caching", "--seed"):
        assert name not in command
    assert not [word for word in command if "disable-log-stats" in word]


def test_keys_are_in_the_environment_alone():
    with_key = spec(api_key="secret")
    assert with_key.environment({})["VLLM_API_KEY"] == "secret"
    assert "secret" not in " ".join(with_key.command())
    assert "secret" not in repr(with_key)
    assert "VLLM_API_KEY" not in spec().environment({"VLLM_API_KEY": "of another server"})
    with pytest.raises(ModelError, match="HF_TOKEN in the environment"):
        spec(hf_token="secret").command()
    with pytest.raises(ModelError, match="HF_TOKEN in the environment") as caught:
        check_engine_options({"hf_token": "secret"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (None, None),
        ("", "langgraph_mai"),
        ("theirs", "theirs,langgraph_mai"),
        ("langgraph_mai,theirs", "langgraph_mai,theirs"),
    ],
)
def test_the_plugin_that_ends_servers_is_always_allowed(listed, expected):
    environ = {} if listed is None else {"VLLM_PLUGINS": listed}
    assert spec().environment(environ).get("VLLM_PLUGINS") == expected


def test_the_sampling_of_a_checkpoint_is_overridden_but_not_that_of_the_pair():
    (flag,) = (
        word
        for word in spec(override_generation_config={"top_k": 5}).command()
        if word.startswith("--override-generation-config=")
    )
    assert json.loads(flag.partition("=")[2]) == {
        "temperature": 0.0,
        "top_k": 5,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }


@pytest.mark.parametrize(
    ("gpu", "visible", "expected"),
    [(1, None, "1"), (1, "2,3", "3"), (0, "GPU-ab12,GPU-cd34", "GPU-ab12"), (None, "2", "2")],
)
def test_a_device_is_one_of_the_visible_gpus(gpu, visible, expected):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert spec(gpu=gpu).environment(environ)["CUDA_VISIBLE_DEVICES"] == expected


def test_a_gpu_that_is_not_visible_is_refused():
    with pytest.raises(ModelError, match=r"no device cuda:1 .* shows 1 GPU"):
        spec(gpu=1).environment({"CUDA_VISIBLE_DEVICES": "0"})
