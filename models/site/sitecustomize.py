"""End vLLM's processes with their parent, and make CUDA packages harmless beside a CPU torch.

vLLM's processes get nothing from the one that starts them but its environment, and they are spawned
anew. So this file is found by PYTHONPATH, which names its folder only while they start. It imports
nothing of this package, and resumes with the user's own `sitecustomize`.
"""

import importlib
import os
import signal
import sys
import threading
import time
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

PARENT = "LANGGRAPH_MAI_PARENT"
"""Environment variable with the number of the process that the others must not outlive."""

_SECONDS_BETWEEN_LOOKS = 0.2

_OPTIONAL = ("torchaudio", "torchcodec", "triton")
"""Packages that vLLM requires, for audio and GPU kernels. Built for CUDA, the first two fail to be
imported beside a CPU torch, and with them vLLM and every processor of transformers."""

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
"""Operators that torchvision refers to while it is imported; image processors call neither."""

_declared: list[Any] = []
"""Holds the operators, which end with the object that declared them."""


def fit_torch_packages() -> None:
    """Let torchvision be imported beside a CPU torch that it was not built for; hide the rest.

    PyPI's builds are for CUDA. Where the package index of PyTorch's CPU builds cannot be reached,
    they are what pip puts beside a CPU torch.
    """
    if not _is_cpu_build("torch"):
        return
    for name in _OPTIONAL:
        if name not in sys.modules and not _is_cpu_build(name):
            # As if it was not installed, also for those who only look whether it is.
            sys.modules[name] = None  # type: ignore[assignment]
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return  # whoever needs it says so
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
        make: Any = importlib.import_module("torch.library").Library
        _declared.append(make("torchvision", "FRAGMENT"))
        for schema in _SCHEMAS:
            _declared[-1].define(schema)
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]


def _is_cpu_build(package: str) -> bool:
    try:
        return version(package).endswith("+cpu")
    except PackageNotFoundError:
        return False


def end_with_parent(first: int) -> None:
    """Watch the parent of this process, in a thread, and the process that started them all.

    Args:
        first: The number of the latter.
    """
    # A parent that has ended already is no longer what the system calls the parent; then it is
    # the first one that has ended too, or soon.
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent and _runs(first):
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _belongs_to_vllm() -> bool:
    """Whether this is a process of vLLM's, and no other that started in the same seconds."""
    command = sys.orig_argv[1:]
    return "--multiprocessing-fork" in command or any("vllm" in word for word in command)


def _resume() -> None:
    """Import the `sitecustomize` that Python would have found without this one."""
    here = Path(__file__).resolve().parent
    others = [folder for folder in sys.path if Path(folder).resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    first = os.environ.get(PARENT, "")
    if first.isdigit() and int(first) != os.getpid() and _belongs_to_vllm():
        end_with_parent(int(first))  # first: what follows takes seconds
        fit_torch_packages()
    _resume()
