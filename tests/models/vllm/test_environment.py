"""What vLLM's processes are told by the environment. Nothing here starts vLLM."""

import json
import os
import subprocess
import sys

import pytest

# In a process of its own, because the environment is set once a process.
PREPARE = """
import json, os
from langgraph_mai.models.errors import ModelError
from langgraph_mai.models.vllm.environment import prepare
try:
    log = prepare()
except ModelError as error:
    print(json.dumps({"error": str(error)}))
else:
    config = os.environ.get("VLLM_LOGGING_CONFIG_PATH")
    names = ("LANGGRAPH_MAI_PARENT", "VLLM_PLUGINS", "VLLM_WORKER_MULTIPROC_METHOD")
    print(json.dumps({
        "pid": os.getpid(),
        "log": log and str(log),
        "config": json.load(open(config)) if log else config,
        "environment": {name: os.environ.get(name) for name in names},
    }))
"""


def prepared(**environment):
    names = ("VLLM_", "LANGGRAPH_MAI_PARENT")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    done = subprocess.run(
        [sys.executable, "-c", PREPARE],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("given", "level"),
    [
        ({}, "INFO"),
        ({"VLLM_LOGGING_LEVEL": "debug"}, "DEBUG"),
        ({"VLLM_LOGGING_PREFIX": "here: "}, "INFO"),
        ({"VLLM_LOGGING_COLOR": "1", "VLLM_LOGGING_LEVEL": "ERROR"}, "ERROR"),
        ({"VLLM_CONFIGURE_LOGGING": "1", "VLLM_LOGGING_STREAM": ""}, "INFO"),
    ],
)
def test_how_much_vllm_logs_leaves_it_in_the_file(given, level):
    found = prepared(**given)
    assert found["log"].endswith("vllm.log")
    assert found["config"]["loggers"]["vllm"]["level"] == level
    assert found["config"]["handlers"]["file"]["filename"] == found["log"]


@pytest.mark.parametrize(
    "given",
    [
        {"VLLM_LOGGING_STREAM": "ext://sys.stderr"},
        {"VLLM_LOGGING_CONFIG_PATH": "/of/the/user.json", "VLLM_LOGGING_LEVEL": "DEBUG"},
        {"VLLM_CONFIGURE_LOGGING": "0"},
    ],
)
def test_where_vllm_logs_is_left_to_the_user(given):
    found = prepared(**given)
    assert found["log"] is None
    assert found["config"] == given.get("VLLM_LOGGING_CONFIG_PATH")


@pytest.mark.parametrize(
    ("given", "plugins", "method"),
    [
        ({}, None, "spawn"),
        ({"VLLM_PLUGINS": ""}, "langgraph_mai", "spawn"),
        ({"VLLM_PLUGINS": "a,b", "LANGGRAPH_MAI_PARENT": "1"}, "a,b,langgraph_mai", "spawn"),
        ({"VLLM_WORKER_MULTIPROC_METHOD": "fork"}, None, "fork"),
    ],
)
def test_engines_watch_the_process_that_starts_them(given, plugins, method):
    found = prepared(**given)
    assert found["environment"] == {
        "LANGGRAPH_MAI_PARENT": str(found["pid"]),
        "VLLM_PLUGINS": plugins,
        "VLLM_WORKER_MULTIPROC_METHOD": method,
    }


def test_without_a_temporary_folder_it_is_said_what_to_set():
    # Not by TMPDIR: Python tries other folders after it, and this system may have one of them.
    code = f"import tempfile\ntempfile.tempdir = '/no/such/folder'\n{PREPARE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "set TMPDIR to a folder that can be written to" in json.loads(done.stdout)["error"]


def test_a_process_below_another_one_has_a_log_of_its_own():
    above = prepared()
    folder = above["log"].rpartition("/")[0]
    found = prepared(
        VLLM_LOGGING_CONFIG_PATH=f"{folder}/logging.json", LANGGRAPH_MAI_VLLM_LOG=above["log"]
    )
    assert found["log"]
    assert found["log"] != above["log"]
