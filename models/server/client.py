"""The client of a server: exactly the key and headers that were given, nothing of the environment.

The openai package reads a key, an organization, a project and headers from OPENAI_* variables.
They belong to another service and must not reach this one.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import openai

CONNECT_SECONDS = 10.0
"""How long one attempt to connect may take."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a connection is made of; equal settings may share one.

    Attributes:
        base_url: Address of the API.
        api_key: Its key.
        max_retries: How often a request is sent again.
        headers: Further headers of every request.
        query: Further query parameters of every request.
        proxy: URL of a proxy to go through.
        http_client: The caller's own HTTP client; None for one of the connection's own.
    """

    base_url: str
    api_key: str = field(repr=False)
    max_retries: int
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    query: Mapping[str, object] | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    http_client: Any = None


def make_client(settings: ServerSettings) -> openai.AsyncOpenAI:
    """Make the client of a server.

    An http address is reached directly: a proxy named by the environment would see the key. An
    https address goes through such a proxy as any other does.

    Args:
        settings: What it sends to whom.

    Raises:
        TypeError: The caller's HTTP client is none that the openai package can use.
    """
    timeout = openai.Timeout(None, connect=CONNECT_SECONDS)
    client = openai.AsyncOpenAI(
        api_key=settings.api_key,
        base_url=settings.base_url,
        max_retries=settings.max_retries,
        timeout=timeout,
        default_headers={
            **_headers_of_the_environment(),
            "Authorization": f"Bearer {settings.api_key}",
            **(settings.headers or {}),
        },
        default_query=settings.query,
        http_client=settings.http_client or _own_http_client(settings, timeout),
    )
    client.organization = client.project = client.admin_api_key = None
    return client


def _own_http_client(settings: ServerSettings, timeout: openai.Timeout) -> Any:
    through: dict[str, Any] = {"proxy": settings.proxy} if settings.proxy else {}
    trust_env = urlsplit(settings.base_url).scheme == "https"
    return openai.DefaultAsyncHttpxClient(timeout=timeout, trust_env=trust_env, **through)


def _headers_of_the_environment() -> dict[str, Any]:
    """The headers that the openai package would add, marked to be left out."""
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    return {line.partition(":")[0].strip(): openai.Omit() for line in lines if ":" in line}
