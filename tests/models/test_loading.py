"""Loading a checkpoint: every failure is one sentence that says what is wrong and what to do."""

import builtins
import json
import logging
import re
import shutil
import subprocess
import sys

import pytest
import torch
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai import ChatTransformers, ModelError


def broken(checkpoint, folder, drop=(), **config):
    """A copy of a checkpoint without some files, or with another config."""
    shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns(*drop))
    if config:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder


def failure(model, kind=ModelError, **options):
    with pytest.raises(kind) as raised:
        ChatTransformers(model=str(model), **options).load()
    message = str(raised.value)
    assert "\n" not in message
    assert message.endswith((".", '"'))
    return message


def test_a_missing_folder(tmp_path):
    assert f"no model folder '{tmp_path}/nothing'" in failure(tmp_path / "nothing")
    assert "no model folder" in failure("./nothing")


def test_a_hub_name_without_network():
    message = failure("Qwen/Qwen3-VL-2B-Instruct")
    assert "'Qwen/Qwen3-VL-2B-Instruct' is neither a folder nor in the local hub cache" in message
    assert "HF_HUB_OFFLINE" in message


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("ConnectionError", "cannot be reached"),
        ("GatedRepoError", "gated"),
        ("RepositoryNotFoundError", "The hub has no model"),
        ("RevisionNotFoundError", "no revision 'v9'"),
    ],
)
def test_what_the_hub_says(monkeypatch, error, expected):
    from langgraph_mai.models.transformers import checkpoint as loading

    kind = type(error, (OSError,), {})

    def refuse(*args, **kwargs):
        raise kind("a long\ntext")

    monkeypatch.setattr(loading, "snapshot_download", refuse)
    assert expected in failure("some/model", revision="v9")


def test_a_folder_without_config(tmp_path):
    assert "holds no config.json" in failure(tmp_path)


def test_missing_weights(qwen_checkpoint, tmp_path):
    folder = broken(qwen_checkpoint, tmp_path / "a", drop=["*.safetensors"])
    assert "has no weights" in failure(folder)


def test_weights_cut_off(qwen_checkpoint, tmp_path):
    weights = broken(qwen_checkpoint, tmp_path / "a") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:20_000])
    assert "damaged or were not downloaded whole" in failure(tmp_path / "a")


def test_some_weights_missing(qwen_checkpoint, tmp_path):
    """transformers fills them with random numbers and only prints a report."""
    from safetensors.torch import load_file, save_file

    path = broken(qwen_checkpoint, tmp_path / "a") / "model.safetensors"
    weights = load_file(path)
    weights.pop("model.language_model.layers.1.mlp.up_proj.weight")
    save_file(weights, path, {"format": "pt"})
    assert "lacks 1 of the model's weights" in failure(tmp_path / "a")


def test_weights_of_another_shape(qwen_checkpoint, tmp_path):
    text = json.loads((qwen_checkpoint / "config.json").read_text())["text_config"]
    folder = broken(qwen_checkpoint, tmp_path / "a", text_config={**text, "intermediate_size": 96})
    assert "do not have the shapes" in failure(folder)


@pytest.mark.parametrize("part", ["text_config", "vision_config"])
def test_fewer_layers_than_weights(qwen_checkpoint, tmp_path, part):
    """transformers leaves the rest out without a word."""
    config = json.loads((qwen_checkpoint / "config.json").read_text())[part]
    name = "num_hidden_layers" if part == "text_config" else "depth"
    changes = {part: {**config, name: 1}}
    if part == "vision_config":
        changes[part]["deepstack_visual_indexes"] = [0, 0]
    message = failure(broken(qwen_checkpoint, tmp_path / "a", **changes))
    assert "weights of layers that its config.json does not count" in message


def test_weights_that_a_model_can_do_without(qwen_checkpoint, tmp_path):
    from safetensors.torch import load_file, save_file

    path = broken(qwen_checkpoint, tmp_path / "a") / "model.safetensors"
    weights = load_file(path)
    embedding = next(name for name in weights if name.endswith("embed_tokens.weight"))
    weights["lm_head.weight"] = weights[embedding].clone()  # tied: a second copy
    weights["model.language_model.rotary_emb.inv_freq"] = torch.ones(8)
    weights["mtp.fc.weight"] = torch.ones(4, 4)  # a head for training
    save_file(weights, path, {"format": "pt"})
    assert ChatTransformers(model=str(tmp_path / "a"), max_tokens=1).invoke("x")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe{}", b"[" * 100_000])
@pytest.mark.parametrize(
    "file",
    [
        "config.json",
        "generation_config.json",
        "processor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ],
)
def test_a_damaged_file_is_named(qwen_checkpoint, tmp_path, file, content):
    (broken(qwen_checkpoint, tmp_path / "a") / file).write_bytes(content)
    message = failure(tmp_path / "a")
    assert f"The file {file} of" in message
    assert "no JSON object" in message


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("config.json", "config.json"),
        ("processor_config.json", "processor_config.json"),
        ("tokenizer.json", "tokenizer.json"),
    ],
)
def test_a_file_without_its_content_is_named(qwen_checkpoint, tmp_path, file, named):
    (broken(qwen_checkpoint, tmp_path / "a") / file).write_text("{}")
    assert named in failure(tmp_path / "a")


def test_a_tokenizer_without_vocabulary(qwen_checkpoint, tmp_path):
    path = broken(qwen_checkpoint, tmp_path / "a") / "tokenizer.json"
    content = json.loads(path.read_text())
    del content["model"]["vocab"]
    path.write_text(json.dumps(content))
    assert "look at tokenizer.json" in failure(tmp_path / "a")


@pytest.mark.parametrize("token", [5, 999_999])
def test_an_image_token_of_another_checkpoint(qwen_checkpoint, tmp_path, token):
    folder = broken(qwen_checkpoint, tmp_path / "a", image_token_id=token)
    block = {"type": "image", "image": Image.new("RGB", (64, 64))}
    model = ChatTransformers(model=str(folder), max_tokens=1)
    with pytest.raises(ModelError, match=f"gives image_token_id as {token}, but its tokenizer"):
        model.invoke([HumanMessage([block, "x"])])
    assert model.invoke("x")


@pytest.mark.parametrize("name", ["x" * 3000, "~nobody-of-this-name/model", "a\0b", "\udce9"])
def test_what_cannot_be_a_folder(name):
    assert re.search("no model folder|no such folder", failure(name))


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"foo": 1}, "'foo'"), ({"max_token": 5, "tempreture": 1}, "'max_token', 'tempreture'")],
)
def test_an_unknown_setting_is_named(settings, named):
    with pytest.raises(TypeError, match=f"has no setting {named}; it has .*max_tokens"):
        ChatTransformers(model="some/model", **settings)


def test_an_unknown_type(qwen_checkpoint, tmp_path):
    folder = broken(qwen_checkpoint, tmp_path / "a", model_type="vlm_of_2030")
    assert "upgrade" in failure(folder)


def test_a_checkpoint_with_its_own_code(qwen_checkpoint, tmp_path):
    folder = broken(
        qwen_checkpoint,
        tmp_path / "a",
        model_type="internvl_chat",
        auto_map={"AutoConfig": "configuration_internvl_chat.InternVLChatConfig"},
    )
    assert "ending in -HF" in failure(folder)


def test_a_text_only_checkpoint(qwen_checkpoint, tmp_path):
    from transformers import Qwen3Config

    folder = broken(qwen_checkpoint, tmp_path / "a", drop=["config.json"])
    Qwen3Config(hidden_size=32, num_hidden_layers=1).save_pretrained(folder)
    assert "does not read images" in failure(folder)


def test_no_processor(qwen_checkpoint, tmp_path):
    folder = broken(qwen_checkpoint, tmp_path / "a", drop=["processor_config.json"])
    assert "look at processor_config.json" in failure(folder)


@pytest.mark.parametrize("drop", [["tokenizer.json"], ["tokenizer.json", "tokenizer_config.json"]])
def test_no_tokenizer(checkpoint, tmp_path, drop):
    folder = broken(checkpoint, tmp_path / "a", drop=drop)
    assert "has no tokenizer (tokenizer.json)" in failure(folder)


def test_no_chat_template(checkpoint, tmp_path):
    folder = broken(checkpoint, tmp_path / "a", drop=["chat_template.jinja"])
    assert "has no chat template" in failure(folder)


@pytest.mark.parametrize("attention", ["unheard_of", "flash_attention_2"])
def test_an_attention_that_is_not_there(qwen_checkpoint, attention):
    assert f"'{attention}' cannot be used" in failure(
        qwen_checkpoint, attn_implementation=attention
    )


def test_an_unknown_dtype(qwen_checkpoint):
    assert "'float8' is not known" in failure(qwen_checkpoint, dtype="float8")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", "meta", "xpu", "hpu:0", "vulkan", "ipu"])
def test_an_unknown_device(qwen_checkpoint, device):
    assert "is not known" in failure(qwen_checkpoint, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(qwen_checkpoint):
    assert "torch finds no CUDA GPU" in failure(qwen_checkpoint, device="cuda")


def test_a_model_larger_than_the_memory(qwen_checkpoint, tmp_path):
    """Found from the config, before anything is read: the system would kill the process."""
    text = json.loads((qwen_checkpoint / "config.json").read_text())["text_config"]
    huge = {**text, "hidden_size": 65536, "num_hidden_layers": 200, "intermediate_size": 262144}
    folder = broken(qwen_checkpoint, tmp_path / "a", text_config=huge)
    assert "GB for its weights" in failure(folder, device="cpu")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: can't allocate memory"
        ),
    ],
)
def test_memory_that_runs_out_while_loading(qwen_checkpoint, monkeypatch, error):
    from transformers import AutoModelForImageTextToText

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(AutoModelForImageTextToText, "from_pretrained", fail)
    assert "not enough memory for the model" in failure(qwen_checkpoint, threads=7)


def test_memory_that_runs_out_while_answering(qwen_checkpoint, monkeypatch):
    from transformers import GenerationMixin

    def fail(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    model = ChatTransformers(model=str(qwen_checkpoint), dtype="float32")
    monkeypatch.setattr(GenerationMixin, "generate", fail)
    with pytest.raises(ModelError, match="lower max_pixels"):
        model.invoke("x")
    with pytest.raises(ModelError, match="lower max_pixels"):  # row by row it runs out too
        model.batch(["x", "y"])


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_names_what_to_install(qwen_checkpoint, monkeypatch, package):
    for module in [name for name in sys.modules if name.startswith("langgraph_mai.models.")]:
        if module.endswith(("checkpoint", "engine")):
            monkeypatch.delitem(sys.modules, module)
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{package}'", name=package)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    message = failure(qwen_checkpoint, ImportError, threads=8)
    assert 'pip install "langgraph-mai[transformers]"' in message


def test_a_package_that_the_processor_misses(qwen_checkpoint, monkeypatch):
    from transformers import AutoProcessor

    def fail(*args, **kwargs):
        raise ImportError("\nAutoVideoProcessor requires the Torchvision library\nbut ...")

    monkeypatch.setattr(AutoProcessor, "from_pretrained", fail)
    message = failure(qwen_checkpoint, ImportError, threads=9)
    assert "Torchvision" in message
    assert 'pip install "langgraph-mai[transformers]"' in message


def test_a_failed_load_can_be_repeated(qwen_checkpoint, tmp_path):
    folder = tmp_path / "late"
    failure(folder)
    shutil.copytree(qwen_checkpoint, folder)
    assert ChatTransformers(model=str(folder), max_tokens=1).invoke("x")


def test_nothing_is_printed(qwen_checkpoint, capfd, caplog):
    model = ChatTransformers(model=str(qwen_checkpoint), dtype="float32", max_tokens=4)
    model.unload()
    with caplog.at_level(logging.WARNING):
        model.invoke("x")
        list(model.stream("x", temperature=0.7))
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_transformers_own_settings_are_left_alone(qwen_checkpoint):
    from transformers.utils import logging as transformers_logging

    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    ChatTransformers(model=str(qwen_checkpoint), threads=6).load().unload()
    after = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    assert before == after


def test_importing_and_making_models_loads_no_torch():
    program = (
        "import sys, langgraph_mai\n"
        "import langgraph_mai.models.images\n"
        "langgraph_mai.ChatTransformers(model='some/model')\n"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
