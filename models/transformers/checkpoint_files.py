"""The small files of a checkpoint: whether they can be read, and the processor that they make.

transformers reports a damaged file by whatever exception it stumbles over, without the file's name,
and takes a checkpoint without tokenizer files for one with an empty vocabulary.
"""

import json
from pathlib import Path
from typing import Any

from transformers import AutoProcessor, AutoTokenizer

from ..errors import ModelError

_JSON_FILES = (
    "config.json", "generation_config.json", "processor_config.json", "preprocessor_config.json",
    "video_preprocessor_config.json", "tokenizer_config.json", "tokenizer.json", "vocab.json",
    "special_tokens_map.json", "added_tokens.json", "chat_template.json",
    "model.safetensors.index.json",
)  # fmt: skip
_TOKENIZER_FILES = ("tokenizer.json", "vocab.*", "*.model", "*.tiktoken", "tekken.json")

# transformers leaves these untyped.
_processors: Any = AutoProcessor
_tokenizers: Any = AutoTokenizer


def check_json_files(folder: Path, name: str) -> None:
    """Check that the JSON files of a checkpoint hold JSON objects.

    Args:
        folder: The checkpoint.
        name: What it is called in error messages.

    Raises:
        ModelError: One does not; the message names it.
    """
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


def load_processor(folder: Path, name: str) -> Any:
    """Load a checkpoint's processor, with a tokenizer and a chat template in it.

    Args:
        folder: The checkpoint.
        name: What it is called in error messages.

    Raises:
        ImportError: A package is missing.
        ModelError: Files are missing or damaged.
    """
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
    try:
        _tokenizers.from_pretrained(folder, trust_remote_code=False)
        part, files = "processor", "processor_config.json or preprocessor_config.json"
    except Exception as tokenizer_error:  # noqa: BLE001  any of the errors described above
        part, files = "tokenizer", "tokenizer.json or tokenizer_config.json"
        error = tokenizer_error
    # An OSError is a file that is not there, and its text three lines of advice about the hub.
    reason = "" if isinstance(error, OSError) else f" ({' '.join(str(error).split())[:200]})"
    return ModelError(
        f"The {part} of {name!r} is missing or damaged: look at {files}{reason}; get the whole "
        "checkpoint."
    )
