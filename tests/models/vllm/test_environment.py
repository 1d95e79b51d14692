"""What vLLM's processes are given by the environment. Nothing here starts vLLM."""

import json
import os
import subprocess
import sys

# In a process of its own, because the log is made once per process.
WITHIN = """
import json, os
from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.vllm.engine_args import log_file, vllm_environment
try:
    with vllm_environment():
        config = os.environ.get("VLLM_LOGGING_CONFIG_PATH")
        print(json.dumps({
            "log": str(log_file()),
            "config": json.load(open(config)) if log_file() else config,
            "method": os.environ["VLLM_WORKER_MULTIPROC_METHOD"],
        }))
except ModelError as error:
    print(json.dumps({"error": str(error)}))
"""


def within(code=WITHIN, **environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    command = [sys.executable, "-c", code]
    env = inherited | environment
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_vllm_logs_to_a_file_unless_the_user_names_a_place():
    for given, level in (
        ({}, "INFO"),
        ({"VLLM_LOGGING_COLOR": "1", "VLLM_LOGGING_LEVEL": "error"}, "ERROR"),
        ({"VLLM_CONFIGURE_LOGGING": "1", "VLLM_LOGGING_STREAM": ""}, "INFO"),
    ):
        found = within(**given)
        assert found["log"].endswith("vllm.log")
        assert found["config"]["loggers"]["vllm"]["level"] == level
        assert found["config"]["handlers"]["file"]["filename"] == found["log"]
        assert found["method"] == "spawn"
    for given in (
        {"VLLM_LOGGING_STREAM": "ext://sys.stderr", "VLLM_WORKER_MULTIPROC_METHOD": "fork"},
        {"VLLM_LOGGING_CONFIG_PATH": "/of/the/user.json", "VLLM_LOGGING_LEVEL": "DEBUG"},
        {"VLLM_CONFIGURE_LOGGING": "0"},
    ):
        found = within(**given)
        assert found["log"] == "None"
        assert found["config"] == given.get("VLLM_LOGGING_CONFIG_PATH")
        assert found["method"] == given.get("VLLM_WORKER_MULTIPROC_METHOD", "spawn")


AFTER = """
import json, os
from langgraph_mai.models.vllm.engine_args import vllm_environment
before = dict(os.environ)
with vllm_environment():
    pass
print(json.dumps(sorted(set(os.environ.items()) - set(before.items()))))
"""


def test_only_harmless_settings_stay_for_other_processes():
    stays = {name for name, _ in within(AFTER, PYTHONPATH=os.pathsep.join(sys.path))}
    assert stays <= {"VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "VLLM_WORKER_MULTIPROC_METHOD"}


def test_without_a_temporary_folder_the_error_names_what_to_set():
    # Not by TMPDIR: Python tries other folders after it, and this system may have one of them.
    found = within(f"import tempfile\ntempfile.tempdir = '/no/such/folder'\n{WITHIN}")
    assert "set TMPDIR to a folder that can be written to" in found["error"]


FIT = """
import importlib.metadata, json, sys
importlib.metadata.version = lambda name: {versions}.get(name, "1.0")
from langgraph_mai.models.site.sitecustomize import fit_torch_packages
fit_torch_packages()
hidden = [name for name, module in sys.modules.items() if module is None]
print(json.dumps(sorted(hidden)))
"""


def test_packages_built_for_cuda_are_hidden_beside_a_cpu_torch_alone():
    cpu = {"torch": "2.13.0+cpu", "torchaudio": "2.13.0+cpu"}
    assert within(FIT.format(versions=cpu)) == ["torchcodec", "triton"]
    assert within(FIT.format(versions={"torch": "2.13.0"})) == []


TORCHVISION = """
import importlib.metadata, json, sys
importlib.metadata.version = lambda name: "2.13.0+cpu"
sys.path.insert(0, {folder!r})
from langgraph_mai.models.site.sitecustomize import fit_torch_packages
fit_torch_packages()
import torchvision
print(json.dumps(torchvision.found))
"""


def test_a_torchvision_without_its_operators_is_imported(tmp_path):
    """As PyPI's build for CUDA fails beside a CPU torch: the operator's schema is not declared."""
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("from torchvision.ops import found\n")
    (package / "ops.py").write_text(
        "import torch\n"
        "torch.library.register_fake('torchvision::nms')(lambda *boxes: None)\n"
        "found = [hasattr(torch.ops.torchvision, name) for name in ('nms', 'qnms')]\n"
    )
    assert within(TORCHVISION.format(folder=str(tmp_path))) == [True, True]
