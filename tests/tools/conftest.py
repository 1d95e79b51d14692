"""What the tests of commands share."""

import json

import pytest


@pytest.fixture
def away(tmp_path) -> str:
    """A pair file whose models are on a server that is not there."""
    server = {"backend": "server", "base_url": "http://127.0.0.1:9/v1", "retries": 0}
    path = tmp_path / "away.yaml"
    path.write_text(json.dumps({role: server | {"model": role} for role in ("small", "large")}))
    return str(path)


@pytest.fixture
def write_pair(tmp_path):
    """Writes a pair file of the demo's models; keys may replace or add to its own."""

    def write(**keys) -> str:
        pair = {"prompts": "demo", "small": {"model": "demo:small"}}
        pair |= {"large": {"model": "demo:large"}} | keys
        path = tmp_path / "pair.yaml"
        path.write_text(json.dumps(pair))
        return str(path)

    return write
