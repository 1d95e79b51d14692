"""What can be known to be wrong with an engine before it starts, which takes long."""

import json
import re

from ...configs.files import existing_folder
from ..errors import ModelError
from .environment import INSTALL, prepare
from .options import EngineSpec, check_engine_options
from .start_errors import explain_start

_HUB_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")


def check_engine(spec: EngineSpec, name: str) -> None:
    """Check that vLLM can be imported, and that options, device and folder are there.

    Args:
        spec: How the engine is to be started.
        name: The model's name, as people know it.

    Raises:
        ModelError: Something is not.
    """
    folder = existing_folder(spec.model)
    if folder is None and not _HUB_NAME.fullmatch(spec.model):
        raise ModelError(f"There is no model folder {spec.model!r}.")
    if folder and not (folder / "config.json").is_file():
        raise ModelError(f"The folder {spec.model!r} holds no config.json and so is no checkpoint.")
    prepare()
    try:
        from vllm.platforms import current_platform

        check_engine_options(json.loads(spec.options))
        device = current_platform.device_type
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "vllm":
            raise ModelError(f"vLLM is not installed; install it with: {INSTALL}") from error
        reason = f"{type(error).__name__}: {error}".splitlines()
        raise ModelError(explain_start(reason, name)) from error
    if spec.device not in {"auto", device}:
        raise ModelError(
            f"The device {spec.device!r} of {name!r} cannot be had: the installed vLLM runs "
            f"on {device or 'a GPU, and finds none'}."
        )
