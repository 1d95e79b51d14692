"""Load a vision-language checkpoint from a folder or the hub; what goes wrong is one sentence.

Imports torch and transformers: only `loading` imports this module, at the first load.
"""

import json
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from huggingface_hub import snapshot_download
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
)
from transformers.utils import logging as transformers_logging

from ...configs.files import existing_folder
from ..errors import ModelError
from .loading import ModelSpec, explain_load_error, one_line

DTYPES = ("auto", "float32", "bfloat16", "float16")

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SMALL_FILES = ["*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
_WEIGHTS = ["*.safetensors"]
# Second copies of the weights in other formats.
_IGNORED = ["original/*", "consolidated*", "onnx/*"]

SINGLE_THREAD_PARAMETERS = 50_000_000
"""Models with fewer parameters compute on one CPU thread: more would mostly wait for each other."""

_DEVICES = ("cpu", "cuda", "mps")
_JSON_FILES = (
    "config.json", "generation_config.json", "processor_config.json", "preprocessor_config.json",
    "video_preprocessor_config.json", "tokenizer_config.json", "tokenizer.json", "vocab.json",
    "special_tokens_map.json", "added_tokens.json", "chat_template.json",
    "model.safetensors.index.json",
)  # fmt: skip
_TOKENIZER_FILES = ("tokenizer.json", "vocab.*", "*.model", "*.tiktoken", "tekken.json")

# transformers leaves these untyped.
_writing_models: Any = AutoModelForImageTextToText
_headless_models: Any = AutoModel
_processors: Any = AutoProcessor
_tokenizers: Any = AutoTokenizer


class LoadingGate:
    """Let models compute at the same time, but none while another one is being loaded.

    While transformers loads a checkpoint it changes torch's default dtype for the whole process. A
    model that computes in another thread at that moment would create some of its tensors in the
    wrong dtype, and answer differently without an error.
    """

    def __init__(self) -> None:
        """Nobody is inside."""
        self._changed = threading.Condition()
        self._computing = 0
        self._loading = False

    @contextmanager
    def computing(self) -> Iterator[int]:
        """Hold while a model computes; gives the number of models that do so now."""
        with self._changed:
            self._changed.wait_for(lambda: not self._loading)
            self._computing += 1
            models = self._computing
        try:
            yield models
        finally:
            with self._changed:
                self._computing -= 1
                self._changed.notify_all()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Hold while a checkpoint is loaded; goes before computations that have not begun."""
        with self._changed:
            self._changed.wait_for(lambda: not self._loading)
            self._loading = True
            self._changed.wait_for(lambda: not self._computing)
        try:
            yield
        finally:
            with self._changed:
                self._loading = False
                self._changed.notify_all()


loading_gate = LoadingGate()
_changing_threads = threading.Lock()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model in memory with its processor.

    Attributes:
        name: As the user named it.
        model: The transformers model, in evaluation mode, on its device.
        processor: The transformers processor.
        threads: CPU threads to compute with, None for the default.
        layers: Layers of the language model that were loaded, without the output head; None for
            the whole model.
    """

    name: str
    model: Any
    processor: Any
    threads: int | None
    layers: int | None = None


def read_config(spec: ModelSpec) -> Any:
    """Return a checkpoint's config, as transformers reads it; raises as `load_checkpoint` does."""
    with _explained(spec):
        folder = _find_files(spec, _SMALL_FILES)
        _check_json_files(folder, spec.model)
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)


def read_processor(spec: ModelSpec) -> Any:
    """Return a checkpoint's processor without its weights; raises as `load_checkpoint` does."""
    with _explained(spec), _quiet():
        return _load_processor(_find_files(spec, _SMALL_FILES), spec.model)


def load_checkpoint(spec: ModelSpec) -> Checkpoint:
    """Find, check and load a checkpoint. Missing files of hub models are downloaded first.

    Raises:
        ImportError: A package is missing.
        ModelError: Anything else, in one sentence.
    """
    device = find_device(spec.device)
    if spec.dtype not in DTYPES:
        raise ModelError(f"The dtype {spec.dtype!r} is not known; use one of {', '.join(DTYPES)}.")
    config = read_config(spec)
    models = _writing_models if spec.layers is None else _headless_models
    with _explained(spec):
        dtype = _dtype(spec.dtype, config)
        if spec.layers is not None:
            # What is said of each layer is cut with the layers above.
            text = config.get_text_config()
            text.num_hidden_layers = spec.layers
            if getattr(text, "layer_types", None):
                text.layer_types = text.layer_types[: spec.layers]
        with loading_gate.loading(), _quiet():
            _check_memory(spec, models, config, dtype, device)
        folder = _find_files(spec, [*_SMALL_FILES, *_WEIGHTS])
        with loading_gate.loading(), _quiet():
            processor = _load_processor(folder, spec.model)
            model, report = models.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                attn_implementation=spec.attention,
                trust_remote_code=False,
                use_safetensors=True,  # other formats can run code
                output_loading_info=True,
            )
        _check_weights(spec, report, model)
        model = model.to(device).eval()
    threads = spec.threads
    if threads is None and device.type == "cpu":
        threads = 1 if model.num_parameters() < SINGLE_THREAD_PARAMETERS else None
    return Checkpoint(spec.model, model, processor, threads, spec.layers)


@contextmanager
def _explained(spec: ModelSpec) -> Iterator[None]:
    """Say in one sentence what fails inside."""
    try:
        yield
    except Exception as error:
        explained = explain_load_error(error, spec)
        if explained is error:
            raise
        raise explained from error


def _find_files(spec: ModelSpec, patterns: list[str]) -> Path:
    """Return the folder with a checkpoint's files."""
    folder = existing_folder(spec.model)
    if folder:
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"The folder {spec.model!r} holds no config.json and so is no checkpoint."
            )
        return folder
    if not _HUB_NAME.fullmatch(spec.model) or spec.model.startswith("."):
        raise ModelError(f"There is no model folder {spec.model!r}.")
    return Path(
        snapshot_download(
            spec.model,
            revision=spec.revision,
            allow_patterns=patterns,
            ignore_patterns=_IGNORED,
        )
    )


def _dtype(name: str, config: Any) -> torch.dtype:
    if name != "auto":
        return getattr(torch, name)  # type: ignore[no-any-return]
    chosen = config.dtype or config.get_text_config().dtype or torch.float32
    return getattr(torch, chosen) if isinstance(chosen, str) else chosen


def _check_memory(
    spec: ModelSpec, models: Any, config: Any, dtype: torch.dtype, device: torch.device
) -> None:
    """Refuse a model whose weights alone do not fit; the system would kill the process instead."""
    free = free_memory(device)
    if free is None:
        return
    with torch.device("meta"):
        shape = models.from_config(config)
    needed = sum(weight.numel() for weight in shape.parameters()) * dtype.itemsize
    if needed > free:
        where = "on the GPU" if device.type == "cuda" else "in memory"
        raise ModelError(
            f"The model {spec.model!r} needs {needed / 1e9:.1f} GB for its weights in "
            f"{str(dtype).removeprefix('torch.')} and {free / 1e9:.1f} GB are free {where}; free "
            "some, or take a smaller model or dtype."
        )


def _check_weights(spec: ModelSpec, report: dict[str, Any], model: Any) -> None:
    """Refuse a checkpoint without some weights, or with more layers than its config says.

    transformers fills the first with random numbers and leaves the others out. Other weights that
    the model has no place for (heads for training, buffers of older versions) change nothing and
    may be there: a layer is told by its siblings, named alike but for numbers.
    """
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"The checkpoint {spec.model!r} lacks {len(missing)} of the model's weights, such as "
            f"{missing[0]}; get the whole checkpoint."
        )
    alike = {re.sub(r"\d+", "#", name) for name, _ in model.named_parameters()}
    left = sorted(key for key in report["unexpected_keys"] if re.sub(r"\d+", "#", key) in alike)
    if left and spec.layers is None:
        raise ModelError(
            f"The checkpoint {spec.model!r} holds {len(left)} weights of layers that its "
            f"config.json does not count, such as {left[0]}; get the files of one checkpoint."
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from drawing bars and reports while a model loads, then put all back."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    hook = transformers_logging.set_tqdm_hook(
        lambda factory, args, kwargs: factory(*args, **{**kwargs, "disable": True})
    )
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(hook)
        logger.setLevel(level)


def _check_json_files(folder: Path, name: str) -> None:
    """Refuse a checkpoint of which a JSON file holds no JSON object; the message names it."""
    for file in _JSON_FILES:
        path = folder / file
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            problem = "" if isinstance(content, dict) else f"it holds a {type(content).__name__}"
        except OSError as error:
            problem = error.strerror or type(error).__name__
        except (ValueError, RecursionError) as error:
            problem = " ".join(str(error).split())
        if problem:
            raise ModelError(
                f"The file {file} of {name!r} is damaged: no JSON object can be read from it "
                f"({problem}); get the whole checkpoint."
            )


def _load_processor(folder: Path, name: str) -> Any:
    """Load a checkpoint's processor, with a tokenizer and a chat template in it."""
    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZER_FILES):
        raise ModelError(
            f"The checkpoint {name!r} has no tokenizer (tokenizer.json); get the whole checkpoint."
        )
    try:
        processor = _processors.from_pretrained(folder, trust_remote_code=False)
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise
        raise _blame(folder, name, error) from error
    tokenizer = getattr(processor, "tokenizer", None)
    if tokenizer is None:
        raise ModelError(f"The checkpoint {name!r} has a tokenizer but no processor for images.")
    if not (processor.chat_template or getattr(tokenizer, "chat_template", None)):
        raise ModelError(
            f"The checkpoint {name!r} has no chat template; take an instruction-tuned one, or add "
            "its chat_template.jinja."
        )
    return processor


def _blame(folder: Path, name: str, error: Exception) -> ModelError:
    """Tell a broken tokenizer from a broken processor by loading the tokenizer alone."""
    part, files = "processor", "processor_config.json or preprocessor_config.json"
    try:
        _tokenizers.from_pretrained(folder, trust_remote_code=False)
    except Exception as tokenizer_error:  # noqa: BLE001  any of the errors described above
        part, files, error = "tokenizer", "tokenizer.json or tokenizer_config.json", tokenizer_error
    # An OSError is a file that is not there, and its text three lines of advice about the hub.
    reason = "" if isinstance(error, OSError) else f" ({' '.join(str(error).split())[:200]})"
    return ModelError(
        f"The {part} of {name!r} is missing or damaged: look at {files}{reason}; get the whole "
        "checkpoint."
    )


def find_device(name: str) -> torch.device:
    """Return a device of this machine.

    Args:
        name: "auto" for a CUDA GPU where there is one, else the CPU; or by torch's name for it.

    Raises:
        ModelError: The name is none of a device that models run on, or there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        known = device.type in _DEVICES
    except RuntimeError:
        known = False
    if not known:
        raise ModelError(f"The device {name!r} is not known; use auto, cpu, cuda, cuda:1 or mps.")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts that it has it
        raise ModelError(
            f"The device {name!r} is not there ({one_line(error)}); use another device, or auto."
        ) from error
    return device


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that are free on a device, None if it does not tell.

    Of main memory, the smaller of what the machine has available and what the control group allows.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu":
        return None
    available = psutil.virtual_memory().available
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such group, or one without a limit
        return available
    return min(available, max(0, limit - used))


def limit_threads(count: int) -> None:
    """Set the CPU threads of the calling thread, and of no other.

    `torch.set_num_threads` sets the calling thread and what later threads start with; the second
    half is undone from a thread that ends immediately.
    """
    if torch.get_num_threads() == count:
        return
    with _changing_threads, ThreadPoolExecutor(1) as other:
        # A thread that has not set its own has the number of new ones.
        before = other.submit(torch.get_num_threads).result()
        torch.set_num_threads(count)
        other.submit(torch.set_num_threads, before).result()
