"""What the tests of chat models share."""

import asyncio

import pytest

WAYS = ["invoke", "ainvoke", "stream", "astream"]


@pytest.fixture(params=WAYS)
def ask(request):
    """The text of a model's answer, asked for in each of LangChain's four ways."""

    def go(model, given="Is it red?", **settings):
        if request.param == "invoke":
            return model.invoke(given, **settings).text
        if request.param == "ainvoke":
            return asyncio.run(model.ainvoke(given, **settings)).text
        if request.param == "stream":
            return "".join(piece.text for piece in model.stream(given, **settings))

        async def stream():
            return "".join([piece.text async for piece in model.astream(given, **settings)])

        return asyncio.run(stream())

    return go
