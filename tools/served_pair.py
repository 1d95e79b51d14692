"""The pair file that uses running servers."""

import socket
from collections.abc import Mapping
from typing import Any

import yaml

from ..configs import ModelConfig, PairConfig

_EVERYWHERE = {"", "0.0.0.0", "::"}


def base_url(host: str, port: int) -> str:
    """Where clients reach a server.

    Args:
        host: The address it listens on; for all addresses, clients are given this machine's name.
        port: Its port.
    """
    name = socket.gethostname() if host in _EVERYWHERE else host
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/v1"


def served_pair(pair: PairConfig, name: str, urls: Mapping[str, str]) -> dict[str, Any]:
    """A pair as a client of servers sees it, in the form of a pair file.

    Args:
        pair: The pair that is served.
        name: What people call it.
        urls: `base_url` by role, of the models that are served here.

    Returns:
        The whole pair; only the models of `urls`, by role, where another machine serves the rest.
    """
    roles = ("small", "large")
    models = {
        role: _served_model(getattr(pair, role), urls.get(role))
        for role in roles
        if role in urls or pair.backend_of(role) == "server"
    }
    if len(models) < len(roles):
        return models
    return {
        "description": f"The models of {name} on servers that `mai serve` started.",
        "backend": "server",
        "prompts": pair.prompts,
        **models,
        # Servers give no attention: the client goes on using the pair's selector.
        **pair.model_dump(include={"sparse", "selector"}, exclude_defaults=True),
    }


def pair_yaml(pair: Mapping[str, Any]) -> str:
    """A pair as the text of a pair file."""
    text: str = yaml.safe_dump(dict(pair), sort_keys=False, width=100)
    return text


def _served_model(model: ModelConfig, url: str | None) -> dict[str, Any]:
    """What a client needs to know: what differs from the defaults."""
    kept = ("max_pixels", "timeout", "api_key_env", "retries")
    defaults = {key: ModelConfig.model_fields[key].default for key in kept}
    settings = {key: getattr(model, key) for key in kept}
    changed = {key: value for key, value in settings.items() if value != defaults[key]}
    return {"model": model.model, "base_url": url or model.base_url} | changed
