"""Devices that models run on, by name.

Imports torch.
"""

import torch

from ..errors import ModelError

_TYPES = ("cpu", "cuda", "mps")


def find_device(name: str) -> torch.device:
    """A device of this machine.

    Args:
        name: "auto" for a CUDA GPU where there is one, else the CPU; or by torch's name for it.

    Raises:
        ModelError: The name is none of a device that models run on, or there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise _unknown(name) from error
    if device.type not in _TYPES:
        raise _unknown(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise ModelError(
                f"The device {name!r} is not there: torch finds {count or 'no'} CUDA GPU"
                f"{'s' if count > 1 else ''}; use another device, or auto."
            )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ModelError("The device 'mps' is not there; use cpu, or auto.")
    return device


def _unknown(name: str) -> ModelError:
    return ModelError(f"The device {name!r} is not known; use auto, cpu, cuda, cuda:1 or mps.")
