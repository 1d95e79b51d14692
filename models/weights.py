"""Where a model's weights are: on the hub, in a folder, or in the package."""

from importlib.resources import files
from pathlib import Path

from ..configs import ConfigError

IN_PACKAGE = "demo:"
"""How names of weights that the package carries begin."""


def model_weights(model: str) -> str:
    """A model's hub name or folder; `demo:NAME` is a folder of the package.

    Raises:
        ConfigError: No such weights in the package.
    """
    if not model.startswith(IN_PACKAGE):
        return model
    name = model.removeprefix(IN_PACKAGE)
    folder = Path(str(files(__package__.rpartition(".")[0]) / "demo" / "weights" / name))
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{model!r} names no weights of this package: use demo:small or demo:large, "
            "and reinstall the package if they are missing."
        )
    return str(folder)
