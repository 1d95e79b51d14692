"""Loading a checkpoint: every failure is one sentence that says what is wrong and what to do."""

import json
import logging
import shutil
import subprocess
import sys
from unittest.mock import Mock

import pytest
import torch
from asked import ask, picture

from langgraph_mai import ChatTransformers, ModelError


def failure(model, kind=ModelError, **options):
    with pytest.raises(kind) as raised:
        ChatTransformers(model=str(model), **options).load()
    message = str(raised.value)
    assert "\n" not in message
    assert message.endswith((".", '"'))
    return message


@pytest.fixture
def broken(qwen_checkpoint, tmp_path):
    """A copy of a checkpoint without some files, with other keys in its config, other weights."""

    def make(drop=(), change=None, weights=None):
        folder = tmp_path / "broken"
        shutil.copytree(qwen_checkpoint, folder, ignore=shutil.ignore_patterns(*drop))
        for path, keys in (change or {}).items():
            content = json.loads((folder / path).read_text())
            for key, value in keys.items():
                below = content
                *parts, last = key.split(".")
                for part in parts:
                    below = below[part]
                below[last] = value
                if value is None:
                    del below[last]
            (folder / path).write_text(json.dumps(content))
        if weights:
            from safetensors.torch import load_file, save_file

            tensors = load_file(folder / "model.safetensors")
            weights(tensors)
            save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder

    return make


def config(**keys):
    return {"change": {"config.json": {key.replace("__", "."): v for key, v in keys.items()}}}


UP = "model.language_model.layers.1.mlp.up_proj.weight"
HUGE = {"hidden_size": 65536, "num_hidden_layers": 200, "intermediate_size": 262144}
LAYERS = "weights of layers that its config.json does not count"
BROKEN = {
    "no weights": ({"drop": ["*.safetensors"]}, "has no weights"),
    # transformers fills them with random numbers, or leaves them out, and says little.
    "some weights": ({"weights": lambda all_of: all_of.pop(UP)}, "lacks 1 of the model's weights"),
    "another shape": (config(text_config__intermediate_size=96), "do not have the shapes"),
    "fewer text layers": (config(text_config__num_hidden_layers=1), LAYERS),
    "fewer image layers": (
        config(vision_config__depth=1, vision_config__deepstack_visual_indexes=[0, 0]),
        LAYERS,
    ),
    "no vocabulary": (
        {"change": {"tokenizer.json": {"model.vocab": None}}},
        "look at tokenizer.json",
    ),
    "unknown type": (config(model_type="vlm_of_2030"), "upgrade"),
    "own code": (
        config(model_type="internvl_chat", auto_map={"AutoConfig": "configuration.InternVL"}),
        "ending in -HF",
    ),
    "no processor": ({"drop": ["processor_config.json"]}, "look at processor_config.json"),
    "no tokenizer": ({"drop": ["tokenizer.json"]}, "has no tokenizer (tokenizer.json)"),
    "no tokenizer at all": ({"drop": ["tokenizer*.json"]}, "has no tokenizer (tokenizer.json)"),
    "no template": ({"drop": ["chat_template.jinja"]}, "has no chat template"),
    # Found from the config, before anything is read: the system would kill the process.
    "too large": (
        config(**{f"text_config__{key}": value for key, value in HUGE.items()}),
        "GB for its weights",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_checkpoint(broken, name):
    changes, sentence = BROKEN[name]
    assert sentence in failure(broken(**changes), device="cpu")


def test_a_damaged_file_is_named(broken):
    folder = broken()
    for file in (
        "config",
        "generation_config",
        "processor_config",
        "tokenizer_config",
        "tokenizer",
    ):
        path = folder / f"{file}.json"
        whole = path.read_bytes()
        for content in (b"", b"{", b"[]", b"null", b"\xff\xfe{}", b"[" * 100_000):
            path.write_bytes(content)
            message = failure(folder)
            assert f"The file {file}.json of" in message
            assert "no JSON object" in message
        path.write_bytes(b"{}")
        if file in {"config", "processor_config", "tokenizer"}:
            assert f"{file}.json" in failure(folder)
        path.write_bytes(whole)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:20_000])
    assert "damaged or were not downloaded whole" in failure(folder)


def test_other_weights_than_those_of_the_model(broken):
    """A text-only checkpoint, and weights that a model can do without."""
    from transformers import Qwen3Config

    folder = broken(drop=["config.json"])
    assert "holds no config.json" in failure(folder)
    Qwen3Config(hidden_size=32, num_hidden_layers=1).save_pretrained(folder)
    assert "does not read images" in failure(folder)

    def add(weights):
        embedding = next(name for name in weights if name.endswith("embed_tokens.weight"))
        weights["lm_head.weight"] = weights[embedding].clone()  # tied: a second copy
        weights["model.language_model.rotary_emb.inv_freq"] = torch.ones(8)
        weights["mtp.fc.weight"] = torch.ones(4, 4)  # a head for training

    shutil.rmtree(folder)
    assert ChatTransformers(model=str(broken(weights=add)), max_tokens=1).invoke("x")


def test_an_image_token_of_another_checkpoint(broken):
    model = ChatTransformers(model=str(broken(**config(image_token_id=5))), max_tokens=1)
    with pytest.raises(ModelError, match="gives image_token_id as 5, but its tokenizer"):
        model.invoke(ask("x", picture("red")))
    assert model.invoke("x")


def test_names_that_are_no_folder(qwen_checkpoint, tmp_path):
    assert f"no model folder '{tmp_path}/nothing'" in failure(tmp_path / "nothing")
    message = failure("Qwen/Qwen3-VL-2B-Instruct")
    assert "'Qwen/Qwen3-VL-2B-Instruct' is neither a folder nor in the local hub cache" in message
    assert "HF_HUB_OFFLINE" in message
    for name in ("./nothing", "x" * 3000, "~nobody-of-this-name/model", "a\0b", "\udce9"):
        message = failure(name)
        assert "no model folder" in message or "no such folder" in message
    failure(tmp_path / "late")  # it can be repeated
    shutil.copytree(qwen_checkpoint, tmp_path / "late")
    assert ChatTransformers(model=str(tmp_path / "late"), max_tokens=1).invoke("x")


def test_what_the_hub_says(monkeypatch):
    from langgraph_mai.models.transformers import checkpoint as loading

    def refuse(error):
        raise type(error, (OSError,), {})("a long\ntext")

    for error, expected in {
        "ConnectionError": "cannot be reached",
        "GatedRepoError": "gated",
        "RepositoryNotFoundError": "The hub has no model",
        "RevisionNotFoundError": "no revision 'v9'",
    }.items():
        monkeypatch.setattr(loading, "snapshot_download", lambda *_, said=error, **__: refuse(said))
        assert expected in failure("some/model", revision="v9")


def test_settings_that_cannot_be(qwen_checkpoint):
    cases = [
        ({"dtype": "float8"}, "'float8' is not known"),
        ({"attn_implementation": "unheard_of"}, "'unheard_of' cannot be used"),
        ({"attn_implementation": "flash_attention_2"}, "'flash_attention_2' cannot be used"),
        *(
            ({"device": device}, "is not known")
            for device in ("gpu", "cuda:x", "", "meta", "xpu", "hpu:0", "vulkan", "ipu")
        ),
    ]
    if not torch.cuda.is_available():
        cases.append(({"device": "cuda"}, "is not there"))
    for given, sentence in cases:
        assert sentence in failure(qwen_checkpoint, **given)
    for given, named in (({"foo": 1}, "'foo'"), ({"max_token": 5, "b": 1}, "'b', 'max_token'")):
        with pytest.raises(TypeError, match=f"has no setting {named}; it has .*max_tokens"):
            ChatTransformers(model="some/model", **given)


OUT_OF_MEMORY = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: can't allocate memory"),
]


def test_memory_that_runs_out(qwen_checkpoint, monkeypatch):
    from transformers import AutoModelForImageTextToText, GenerationMixin

    model = ChatTransformers(model=str(qwen_checkpoint), dtype="float32").load()
    for error in OUT_OF_MEMORY:
        fail = Mock(side_effect=error)
        monkeypatch.setattr(AutoModelForImageTextToText, "from_pretrained", fail)
        monkeypatch.setattr(GenerationMixin, "generate", lambda *_, raised=fail, **__: raised())
        assert "not enough memory for the model" in failure(qwen_checkpoint, threads=7)
        with pytest.raises(ModelError, match="lower max_pixels"):
            model.invoke("x")
        with pytest.raises(ModelError, match="lower max_pixels"):  # one by one it runs out too
            model.batch(["x", "y"])


LOAD = """
import sys
{fault}
from langgraph_mai import load_pair
try:
    load_pair().small.load()
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("sys.modules['torchvision'] = None", ["Local models need torchvision; install it with: "]),
        (
            "sys.path.insert(0, {folder!r})",
            ["do not fit each other (operator torchvision::nms does not exist);", "torch ", "pip"],
        ),
    ],
)
def test_libraries_that_are_missing_or_do_not_fit_each_other(tmp_path, fault, said):
    package = tmp_path / "torchvision"
    package.mkdir()
    lines = "raise RuntimeError('operator torchvision::nms does not exist')\n"
    (package / "__init__.py").write_text(lines)
    code = LOAD.format(fault=fault.format(folder=str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for part in said:
        assert part in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_a_package_that_the_processor_misses(qwen_checkpoint, monkeypatch):
    from transformers import AutoProcessor

    def fail(*args, **kwargs):
        raise ImportError("\nAutoVideoProcessor requires the Torchvision library\nbut ...")

    monkeypatch.setattr(AutoProcessor, "from_pretrained", fail)
    message = failure(qwen_checkpoint, ImportError, threads=9)
    assert "Torchvision" in message
    assert 'pip install "langgraph-mai[transformers]"' in message


def test_nothing_is_printed_and_transformers_own_settings_stay(qwen_checkpoint, capfd, caplog):
    from transformers.utils import logging as theirs

    before = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    model = ChatTransformers(model=str(qwen_checkpoint), dtype="float32", max_tokens=4, threads=6)
    with caplog.at_level(logging.WARNING):
        model.invoke("x")
        list(model.stream("x", temperature=0.7))
        model.unload()
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert before == (theirs.get_verbosity(), theirs.is_progress_bar_enabled())


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
