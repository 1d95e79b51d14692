"""Whether the packages of an extra are there, before a command starts what takes long."""

from importlib.util import find_spec

from .errors import UsageError


def require(*modules: str, extra: str) -> None:
    """Check that modules can be imported, without importing them.

    Raises:
        UsageError: One is missing; the message names the extra that brings it.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise UsageError(
            f"This needs {', '.join(missing)}; install it with: "
            f'pip install "langgraph-mai[{extra}]"'
        )
