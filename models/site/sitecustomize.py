"""End vLLM's processes with their parent, and make CUDA packages harmless beside a CPU torch.

vLLM's processes get nothing from the one that starts them but its environment, and they are spawned
anew. So this file is found by PYTHONPATH, which names its folder only while they start. It imports
nothing of this package, and resumes with the user's own `sitecustomize`.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
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


class _TorchvisionFinder(MetaPathFinder):
    """Finds torchvision as usual, and loads it without its compiled operators if they do not fit.

    Attributes:
        library: Holds the declared operators, which end with it.
    """

    library: Any = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torchvision":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: self._load(execute, module)  # type: ignore[method-assign]
        return spec

    def _load(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        try:
            execute(module)
        except RuntimeError as error:
            if "operator torchvision::" not in str(error):
                raise
            from torch.library import Library

            make: Any = Library  # torch leaves it untyped
            self.library = library = make("torchvision", "FRAGMENT")
            for schema in _SCHEMAS:
                library.define(schema)
            for name in [name for name in sys.modules if name.startswith("torchvision.")]:
                del sys.modules[name]
            execute(module)


def fit_torch_packages() -> None:
    """Let torchvision be imported beside a torch that it was not built for; hide what cannot be.

    PyPI's builds are for CUDA. Where the package index of PyTorch's CPU builds cannot be reached,
    they are what pip puts beside a CPU torch.
    """
    if any(isinstance(finder, _TorchvisionFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _TorchvisionFinder())
    if not _is_cpu_build("torch"):
        return
    for name in _OPTIONAL:
        if name not in sys.modules and not _is_cpu_build(name):
            # As if it was not installed, also for those who only look whether it is.
            sys.modules[name] = None  # type: ignore[assignment]


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
    watch = threading.Thread(target=_watch, args=(parent, first), name="end-with-parent")
    watch.daemon = True
    watch.start()


def _watch(parent: int, first: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent and _runs(first):
        pause.wait(_SECONDS_BETWEEN_LOOKS)
    os.kill(os.getpid(), signal.SIGKILL)


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
        fit_torch_packages()
        end_with_parent(int(first))
    _resume()
