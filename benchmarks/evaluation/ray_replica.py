"""One replica of a pair in a Ray actor: it answers questions and returns results."""

import asyncio
import base64
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from ...configs import ConfigError, PairConfig, PromptsConfig
from ...models.errors import ModelError
from ...models.pairs import Pair, chat_model, selector
from .model_identity import model_identity
from .ray_calls import RemoteCalls
from .runner import answered
from .stored_pair import StoredPair


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
        mailbox: Any,
    ) -> None:
        """Set up.

        Args:
            pair: What the models are made of; local weights load at the first call.
            models: What `model_identity` says of each, by role, on the driver's machine.
            strategies: Names of strategies.
            prompts: The wording.
            pictures: Ray's references to the bytes of each picture, by the driver's reference.
            concurrency: Runs at a time.
            mailbox: Ray's handle of the evaluation's `Mailbox`.
        """
        from ray import get_runtime_context

        name = str(get_runtime_context().get_actor_id())
        self._calls = RemoteCalls(mailbox.ask.remote, name)
        self._graphs: dict[str, Any] = {}
        self._fault = ""
        try:
            own = _pair(pair, prompts, models)
        except (ConfigError, ModelError) as error:
            self._fault = f"On the machine {socket.gethostname()!r}: {error}"
        else:
            stored = StoredPair.of(own, self._calls, models, strategies)
            self._graphs = {name: stored.graph(name, prompts) for name in strategies}
        self._pictures = pictures
        self._seats = asyncio.Semaphore(concurrency)

    async def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Run a question's strategies, and return their results; all new calls are stored then."""
        if self._fault:
            return {"answer": json.dumps({"fault": self._fault})}
        work = json.loads(row["work"])
        given = work["given"]
        given["images"] = [_data_uri(await self._pictures[image]) for image in given["images"]]
        results = await asyncio.gather(
            *(self._run(work["id"], name, given) for name in work["strategies"])
        )
        return {"answer": json.dumps({"number": work["number"], "results": results})}

    async def _run(self, question_id: str, strategy: str, given: Any) -> Any:
        async with self._seats:
            return await answered(self._graphs[strategy], question_id, strategy, given)


def _pair(pair: PairConfig, prompts: PromptsConfig, expected: Mapping[str, dict[str, Any]]) -> Pair:
    """The models of this machine, if they are the same as the driver's."""
    small, large = (chat_model(pair, role) for role in ("small", "large"))
    own = Pair("", small, large, prompts, pair.sparse, selector(pair, small))
    for role, model in own.models().items():
        here = model_identity(model)
        if here != expected.get(role):
            raise ConfigError(
                f"The {role} model is {json.dumps(here)}, but the evaluation's is "
                f"{json.dumps(expected.get(role))}; put the same weights there."
            )
    return own


def _data_uri(content: bytes) -> str:
    return f"data:;base64,{base64.b64encode(content).decode()}"
