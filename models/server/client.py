"""The client of a server: exactly the key and headers that were given, nothing of the environment.

The openai package reads a key, an organization, a project and headers from OPENAI_* variables.
They belong to another service and must not reach this one.
"""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import openai

CONNECT_SECONDS = 10.0
"""How long one attempt to connect may take."""

NO_KEY = "none"
"""Sent to servers that want no key: the protocol has no way to send none."""


def make_client(
    base_url: str,
    api_key: str,
    *,
    max_retries: int,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, object] | None = None,
    proxy: str | None = None,
) -> openai.AsyncOpenAI:
    """Make the client of a server.

    An http address is reached directly: a proxy named by the environment would see the key. An
    https address goes through such a proxy as any other does.

    Args:
        base_url: Address of the API, which usually ends in `/v1`.
        api_key: Its key.
        max_retries: How often a request is sent again after a connection error, a 429 or a 5xx.
        headers: Further headers of every request.
        query: Further query parameters of every request.
        proxy: URL of a proxy to go through.
    """
    timeout = openai.Timeout(None, connect=CONNECT_SECONDS)
    through: dict[str, Any] = {"proxy": proxy} if proxy else {}
    connections = openai.DefaultAsyncHttpxClient(
        timeout=timeout, trust_env=urlsplit(base_url).scheme == "https", **through
    )
    client = openai.AsyncOpenAI(
        api_key=api_key,
        base_url=base_url,
        max_retries=max_retries,
        timeout=timeout,
        default_headers={
            **_headers_of_the_environment(),
            "Authorization": f"Bearer {api_key}",
            **(headers or {}),
        },
        default_query=query,
        http_client=connections,
    )
    client.organization = client.project = client.admin_api_key = None
    return client


def _headers_of_the_environment() -> dict[str, Any]:
    """The headers that the openai package would add, marked to be left out."""
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    return {line.partition(":")[0].strip(): openai.Omit() for line in lines if ":" in line}
