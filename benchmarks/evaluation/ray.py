"""Runs an evaluation's strategies on Ray Data: an actor for each replica of the pair.

A question's strategies run in one replica, which shares calls among them; this process plans,
stores and reports, as without Ray.
"""

import asyncio
import base64
import json
import logging
import os
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...configs import ConfigError, PairConfig, PromptsConfig
from ...models.errors import ModelError
from ...models.images import ImageError
from ...models.images.sources import read_reference
from ...models.pairs import Pair, chat_model, selector
from ...nodes.call_cache import model_identity
from .runner import Done, StrategyGraphs, Work
from .store import EvaluationStore, QuestionCalls

_OBJECT_STORE_BYTES = 200 << 20  # what does not fit is spilled to disk
_BLOCK_BYTES = 1 << 20
_PROBE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RayReplicas:
    """Replicas of a pair on Ray.

    Attributes:
        pair: What each replica makes its models of.
        address: HOST:PORT of a cluster that this machine is part of, or "auto" for the one that
            runs on it; None starts Ray on this machine alone, and ends it afterwards.
        count: How many; None for as many as the GPUs suffice for, one without GPUs.
        gpus: GPUs of each replica; None for one, if its models run on GPUs and there are some.
        gate: The content of the calibration for `mai_gated`: other machines lack its file.
    """

    pair: PairConfig
    address: str | None = None
    count: int | None = None
    gpus: int | None = None
    gate: str | None = None

    def __post_init__(self) -> None:
        if find_spec("ray") is None:
            raise ConfigError(
                'The ray engine needs Ray: pip install "langgraph-mai[ray]", on every machine.'
            )


async def run_on_ray(
    works: Sequence[Work],
    *,
    replicas: RayReplicas,
    models: Mapping[str, dict[str, Any]],
    strategies: Sequence[str],
    prompts: PromptsConfig,
    concurrency: int,
    store: EvaluationStore,
) -> AsyncGenerator[Done]:
    """Run strategies on a cluster, and yield each question as it is done.

    Args:
        works: What to run.
        replicas: Who runs it.
        models: What `model_identity` says of this machine's models, by role.
        strategies: Names of strategies.
        prompts: The wording.
        concurrency: Questions at a time in each replica.
        store: Has the calls that are not to be made again.

    Raises:
        ConfigError: The cluster cannot be joined or is too small, or a replica has other models.
    """
    if not works:
        return
    # Ray writes to standard output what happens to its processes.
    with redirect_stdout(sys.stderr):
        joined = await asyncio.to_thread(_join, replicas)
        try:
            rows = [
                {"number": number, "work": asdict(work), "calls": store.calls_of(work.content)}
                for number, work in enumerate(works)
            ]
            arguments = (replicas.pair, models, list(strategies), prompts, replicas.gate)
            answers = await asyncio.to_thread(_answers, rows, replicas, concurrency, arguments)
            while (answer := await asyncio.to_thread(next, answers, None)) is not None:
                if "error" in answer:
                    raise ConfigError(answer["error"])
                yield Done(works[answer["number"]], answer["results"], answer["calls"])
        finally:
            if joined:
                import ray

                await asyncio.to_thread(ray.shutdown)


class Replica:
    """A pair in a Ray actor: it runs the strategies of questions, several questions at a time.

    Rows go both ways as JSON texts: Arrow would have to guess the types of what is inside.
    """

    def __init__(
        self,
        pair: PairConfig,
        models: Mapping[str, dict[str, Any]],
        strategies: Sequence[str],
        prompts: PromptsConfig,
        gate: str | None,
        images: Mapping[str, Any],
    ) -> None:
        """Make the models; local weights load at the first call.

        Args:
            pair: What the models are made of.
            models: What `model_identity` says of each, by role, on the driver's machine.
            strategies: Names of strategies.
            prompts: The wording.
            gate: The content of the gate's calibration.
            images: Ray's references to the bytes of each image, by the driver's reference.
        """
        self._calls = QuestionCalls()
        self._images = images
        self._error = ""
        try:
            small, large = chat_model(pair, "small"), chat_model(pair, "large")
            own = Pair("", small, large, prompts, pair.sparse, selector(pair, small))
            if gate is not None:
                file = Path(tempfile.mkdtemp()) / "calibration.json"
                file.write_text(gate, encoding="utf-8")
                own = replace(own, gate=str(file))
            for role, model in own.models().items():
                if (here := model_identity(model)) != models.get(role):
                    raise ConfigError(
                        f"The {role} model is {json.dumps(here)}, but the evaluation's is "
                        f"{json.dumps(models.get(role))}; put the same weights there."
                    )
            self._graphs = StrategyGraphs(own, strategies, prompts, self._calls)
        except (ConfigError, ModelError) as error:
            self._error = f"On the machine {socket.gethostname()!r}: {error}"

    async def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Run a question's strategies, and return their results and the calls that are new."""
        if self._error:
            return {"done": json.dumps({"error": self._error})}
        given = json.loads(row["given"])
        work, known = Work(**given["work"]), given["calls"]
        work.given["images"] = [await self._image(one) for one in work.given["images"]]
        self._calls.add_calls(known)
        results = [await self._graphs.run(work, name) for name in work.strategies]
        calls = self._calls.take_calls(work.content)
        new = {key: value for key, value in calls.items() if key not in known}
        return {"done": json.dumps({"number": given["number"], "results": results, "calls": new})}

    async def _image(self, reference: str) -> str:
        """Return an image of the driver's as a data URI; one that it cannot read, as it is."""
        if reference not in self._images:
            return reference
        content: bytes = await self._images[reference]
        return f"data:;base64,{base64.b64encode(content).decode()}"


def _answers(
    rows: Sequence[dict[str, Any]],
    replicas: RayReplicas,
    concurrency: int,
    arguments: Sequence[Any],
) -> Iterator[dict[str, Any]]:
    """Return the replicas' answers, as they come."""
    import ray
    from ray.data import ActorPoolStrategy, DataContext

    count, resources = _capacity(replicas, len(rows))
    context = DataContext.get_current()
    context.enable_progress_bars = False
    # Ray holds tasks back by what their answers may take of its store: 128 MiB each, unless
    # it is told that they are small.
    context.target_max_block_size = _BLOCK_BYTES
    images: dict[str, Any] = {}
    for name in dict.fromkeys(image for row in rows for image in row["work"]["given"]["images"]):
        with suppress(ImageError):  # the run itself says what is wrong
            images[name] = ray.put(read_reference(name, allow_fetch=False))
    replica: Any = Replica  # Ray's types know no classes with an asynchronous call

    # A question is a block, so that its answer comes when it is there.
    answers = ray.data.from_items(
        [{"given": json.dumps(row)} for row in rows], override_num_blocks=len(rows)
    ).map(
        replica,
        fn_constructor_args=(*arguments, images),
        compute=ActorPoolStrategy(
            size=count,
            max_concurrent_calls_per_actor=concurrency,
            max_tasks_in_flight_per_actor=concurrency,
        ),
        **resources,
    )
    return (json.loads(answer["done"]) for answer in answers.iter_rows())


def _join(replicas: RayReplicas) -> bool:
    """Start or join Ray, quietly; return False if this process has it already."""
    # Ray reads these when it is imported. It sends usage reports home unless it is told not to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray
    import ray.data

    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    start: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    address = replicas.address
    if address is None:
        start |= {"num_cpus": max(os.cpu_count() or 1, replicas.count or 1)}
        start |= {"object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    try:
        if address is not None:
            _probe(address)
        if ray.is_initialized():
            return False
        ray.init(address or "local", **start)
    except Exception as error:  # what Ray raises here differs by failure and version
        if address is None:
            raise
        raise ConfigError(
            f"The Ray cluster at {address!r} cannot be joined "
            f"({' '.join(str(error).split()).rstrip('.')}); is it running, with the same Ray and "
            "Python, and is this machine part of it (`ray start --address`)?"
        ) from error
    return True


def _probe(address: str) -> None:
    """Raise OSError if nobody listens there; Ray itself would try for more than a minute."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        raise ValueError("an address is HOST:PORT, or auto")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_SECONDS).close()


def _capacity(replicas: RayReplicas, questions: int) -> tuple[int, dict[str, Any]]:
    """Return how many replicas there will be, and what each reserves.

    Raises:
        ConfigError: The cluster has not enough CPUs or GPUs for them.
    """
    import ray

    here: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call,unused-ignore]
    gpus = replicas.gpus
    if gpus is None:
        pair = replicas.pair
        wanted = any(
            pair.backend_of(role) != "server" and getattr(pair, role).device != "cpu"
            for role in ("small", "large")
        )
        gpus = int(wanted and here.get("GPU", 0) >= 1)
    cpus_here = int(here.get("CPU", 0))
    most = min(cpus_here, int(here.get("GPU", 0)) // gpus) if gpus else cpus_here
    count = replicas.count or (most if gpus else 1)
    if not 1 <= count <= most:
        raise ConfigError(
            f"Ray has room for {most} replicas of one CPU and {gpus} GPUs each, not for "
            f"{max(count, 1)}; ask for fewer with --replicas, or add machines."
        )
    count = min(count, questions)
    # Ray gives an actor's libraries as many threads as it reserves CPUs.
    cpus = 1 if replicas.address else max(1, cpus_here // count)
    return count, {"num_cpus": cpus, "num_gpus": gpus}
