"""An endpoint of scripted models, in this process or behind a port of this machine."""

import asyncio
import contextlib
from typing import Any

import httpx
from fakes import PROMPTS, StreamingModel, models
from langchain_core.language_models.chat_models import agenerate_from_stream
from processes import free_port
from pydantic import Field

from langgraph_mai import Pair
from langgraph_mai.serving.endpoint import Endpoint

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmM"
    "IQAAAABJRU5ErkJggg=="
)


class ReadModel(StreamingModel):
    """A scripted model that keeps the messages it reads, and can take its time.

    Attributes:
        read: The messages of every call.
        pause: Seconds before the first token of a call in an event loop.
        left: How many calls ended while they paused.
    """

    read: list[Any] = Field(default_factory=list)
    pause: float = 0.0
    left: int = 0

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs: Any):
        self.read.append(messages)
        try:
            await asyncio.sleep(self.pause)
        except asyncio.CancelledError:
            self.left += 1
            raise
        for chunk in self._stream(messages, stop, None, **kwargs):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            await asyncio.sleep(0)
            yield chunk

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs: Any):
        return await agenerate_from_stream(self._astream(messages, stop, run_manager, **kwargs))


def scripted_pair(route="direct", **settings):
    """A pair that takes a route on the question "Is it red?"."""
    small, large = models(route, ReadModel, **settings)
    return Pair("scripted", small, large, PROMPTS)


def question(text="Is it red?", **fields):
    """The body of a request with one image."""
    content = [
        {"type": "image_url", "image_url": {"url": PIXEL}},
        {"type": "text", "text": text},
    ]
    return {"model": "mai", "messages": [{"role": "user", "content": content}], **fields}


@contextlib.asynccontextmanager
async def served(pair=None, *, port=False, **options):
    """Serve a pair, in this process or on a port, and give an HTTP client for it."""
    app = Endpoint(pair or scripted_pair(), **options)
    async with contextlib.AsyncExitStack() as stack:
        if port:
            address, transport = await stack.enter_async_context(_listening(app)), None
        else:
            await stack.enter_async_context(app.router.lifespan_context(app))
            address, transport = "http://test", httpx.ASGITransport(app, raise_app_exceptions=False)
        client = httpx.AsyncClient(
            base_url=address, transport=transport, timeout=30, trust_env=False
        )
        yield await stack.enter_async_context(client)


@contextlib.asynccontextmanager
async def _listening(app):
    import uvicorn

    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    server.capture_signals = contextlib.nullcontext
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await running


async def ask(client, **fields):
    """Ask, and return the status and the body."""
    response = await client.post("/v1/chat/completions", json=question(**fields))
    return response.status_code, response.json()


async def events(response):
    """The data of a stream, and its comments."""
    lines = [line async for line in response.aiter_lines() if line]
    return [line.removeprefix("data: ") for line in lines]
