"""One replica of a pair in a Ray actor: it answers questions and returns the calls it made."""

import asyncio
import base64
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from ...configs import ConfigError, PairConfig, PromptsConfig
from ...graph import create_strategy
from ...models.errors import ModelError
from ...models.pairs import chat_model
from .model_identity import model_identity
from .runner import answered
from .stored_model import StoredModel


class ReplicaCalls:
    """The calls that a replica knows, and those that it has not returned yet."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._made: list[list[Any]] = []
        self._failed: list[list[str]] = []

    def learn(self, calls: Mapping[str, Sequence[Any]]) -> None:
        """Take message and seconds of calls that others made, by key."""
        for key, call in calls.items():
            self._known.setdefault(key, json.dumps(call))

    def call(self, key: str) -> tuple[dict[str, Any], float] | None:
        """A known call: its message as JSON and its seconds; None if it was not made."""
        if key not in self._known:
            return None
        message, seconds = json.loads(self._known[key])
        return message, seconds

    def add_call(
        self, key: str, role: str, style: str, message: Mapping[str, Any], seconds: float
    ) -> None:
        """Know a call, and return it with the next answer."""
        self._known[key] = json.dumps([message, seconds])
        self._made.append([key, role, style, message, seconds])

    def add_failure(self, key: str, role: str, style: str, error: str) -> None:
        """Return a failed call with the next answer."""
        self._failed.append([key, role, style, error])

    def take(self) -> dict[str, list[Any]]:
        """What was not returned yet: `calls` and `failed_calls`, as `CallStore` takes them."""
        taken = {"calls": self._made, "failed_calls": self._failed}
        self._made, self._failed = [], []
        return taken


class Replica:
    """Answers rows of a Ray data set, several at a time; Ray makes one in each actor.

    A row's `work` and the answer's `answer` are JSON texts: Arrow would have to guess the types of
    what is inside.
    """

    def __init__(
        self,
        pair: PairConfig,
        models: Mapping[str, dict[str, Any]],
        strategies: Sequence[str],
        prompts: PromptsConfig,
        pictures: Mapping[str, Any],
        concurrency: int,
    ) -> None:
        """Set up.

        Args:
            pair: What the models are made of; local weights load at the first call.
            models: What `model_identity` says of each, by role, on the driver's machine.
            strategies: Names of strategies.
            prompts: The wording.
            pictures: Ray's references to the bytes of each picture, by the driver's reference.
            concurrency: Runs at a time.
        """
        self._calls = ReplicaCalls()
        self._models: list[StoredModel] = []
        self._graphs: dict[str, Any] = {}
        self._fault = ""
        try:
            self._models = [self._model(pair, role, models[role]) for role in ("small", "large")]
        except (ConfigError, ModelError) as error:
            self._fault = f"On the machine {socket.gethostname()!r}: {error}"
        else:
            self._graphs = {
                name: create_strategy(name, *self._models, prompts=prompts) for name in strategies
            }
        self._pictures = pictures
        self._seats = asyncio.Semaphore(concurrency)
        self._counted = 0

    async def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Run a question's strategies, and return their results with all new calls."""
        if self._fault:
            return {"answer": json.dumps({"fault": self._fault})}
        work = json.loads(row["work"])
        self._calls.learn(work["calls"])
        given = work["given"]
        given["images"] = [_data_uri(await self._pictures[image]) for image in given["images"]]
        results = await asyncio.gather(
            *(self._run(work["id"], name, given) for name in work["strategies"])
        )
        made = sum(model.made for model in self._models)
        answer = {"number": work["number"], "results": results, "made": made - self._counted}
        self._counted = made
        return {"answer": json.dumps(answer | self._calls.take())}

    def _model(self, pair: PairConfig, role: str, expected: dict[str, Any]) -> StoredModel:
        """A model of this machine, if it is the same as the driver's."""
        model = chat_model(pair, role)
        here = model_identity(model)
        if here != expected:
            raise ConfigError(
                f"The {role} model is {json.dumps(here)}, but the evaluation's is "
                f"{json.dumps(expected)}; put the same weights there."
            )
        return StoredModel(model, self._calls, role, expected)

    async def _run(self, question_id: str, strategy: str, given: Any) -> Any:
        async with self._seats:
            return await answered(self._graphs[strategy], question_id, strategy, given)


def _data_uri(content: bytes) -> str:
    return f"data:;base64,{base64.b64encode(content).decode()}"
