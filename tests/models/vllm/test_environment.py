"""What vLLM's processes are given by the environment. Nothing here starts vLLM."""

import json
import os
import subprocess
import sys

# In a process of its own, because the environment is set once per process.
PREPARE = """
import json, os
from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.vllm.engine_args import prepare
try:
    log = prepare()
except ModelError as error:
    print(json.dumps({"error": str(error)}))
else:
    config = os.environ.get("VLLM_LOGGING_CONFIG_PATH")
    print(json.dumps({
        "log": log and str(log),
        "config": json.load(open(config)) if log else config,
        "method": os.environ["VLLM_WORKER_MULTIPROC_METHOD"],
    }))
"""


def prepared(code=PREPARE, **environment):
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
        found = prepared(**given)
        assert found["log"].endswith("vllm.log")
        assert found["config"]["loggers"]["vllm"]["level"] == level
        assert found["config"]["handlers"]["file"]["filename"] == found["log"]
        assert found["method"] == "spawn"
    for given in (
        {"VLLM_LOGGING_STREAM": "ext://sys.stderr", "VLLM_WORKER_MULTIPROC_METHOD": "fork"},
        {"VLLM_LOGGING_CONFIG_PATH": "/of/the/user.json", "VLLM_LOGGING_LEVEL": "DEBUG"},
        {"VLLM_CONFIGURE_LOGGING": "0"},
    ):
        found = prepared(**given)
        assert found["log"] is None
        assert found["config"] == given.get("VLLM_LOGGING_CONFIG_PATH")
        assert found["method"] == given.get("VLLM_WORKER_MULTIPROC_METHOD", "spawn")


def test_a_process_below_another_one_has_a_log_of_its_own():
    above = prepared()["log"]
    config = above.rpartition("/")[0] + "/logging.json"
    found = prepared(VLLM_LOGGING_CONFIG_PATH=config, LANGGRAPH_MAI_VLLM_LOG=above)
    assert found["log"] not in {None, above}


def test_without_a_temporary_folder_the_error_names_what_to_set():
    # Not by TMPDIR: Python tries other folders after it, and this system may have one of them.
    found = prepared(f"import tempfile\ntempfile.tempdir = '/no/such/folder'\n{PREPARE}")
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
    assert prepared(FIT.format(versions=cpu)) == ["torchcodec", "triton"]
    assert prepared(FIT.format(versions={"torch": "2.13.0"})) == []


TORCHVISION = """
import json, sys
from langgraph_mai.models.site.sitecustomize import fit_torch_packages
fit_torch_packages()
sys.path.insert(0, {folder!r})
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
    assert prepared(TORCHVISION.format(folder=str(tmp_path))) == [True, True]
