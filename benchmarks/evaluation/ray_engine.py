"""Makes an evaluation's runs on Ray Data: one actor for each replica of the pair.

This process plans, stores and reports, as without Ray; replicas get questions and return results,
and look up and store their calls here. Ray is imported when there is something to ask.
"""

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ...configs import ConfigError, PairConfig, PromptsConfig
from ...models.images.sources import read_reference
from ...models.pairs import Pair
from .ray_calls import CallServer, Mailbox
from .replay import Replay
from .results import graph_input
from .runner import OnResult, Run
from .shared_calls import SharedCalls

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
    """

    pair: PairConfig
    address: str | None = None
    count: int | None = None
    gpus: int | None = None

    def __post_init__(self) -> None:
        if find_spec("ray") is None:
            raise ConfigError(
                'The ray engine needs Ray: pip install "langgraph-mai[ray]", on every machine.'
            )


class RayEngine:
    """Makes runs on a cluster, and answers what its replicas ask of the store."""

    def __init__(
        self,
        replicas: RayReplicas,
        pair: Pair,
        calls: SharedCalls,
        models: Mapping[str, dict[str, Any]],
        strategies: Sequence[str],
        prompts: PromptsConfig,
        concurrency: int,
    ) -> None:
        """Set up; nothing starts yet.

        Args:
            replicas: Who answers.
            pair: The same models in this process, which are not asked.
            calls: The calls of the store, which is this process's.
            models: What `model_identity` says of each, by role.
            strategies: Names of strategies.
            prompts: The wording.
            concurrency: Runs at a time in each replica.
        """
        self._replicas = replicas
        self._server = CallServer(calls)
        self._replay = Replay(pair, calls, models, strategies, prompts)
        self._concurrency = concurrency
        self._replica_arguments = {
            "pair": replicas.pair,
            "models": models,
            "strategies": list(strategies),
            "prompts": prompts,
            "concurrency": concurrency,
        }

    @property
    def made(self) -> int:
        """Calls that the replicas made, failed ones included."""
        return self._server.made

    async def run(self, waiting: Sequence[Run], on_result: OnResult) -> None:
        """Make all runs; those whose calls are stored need no replica.

        Raises:
            ConfigError: The cluster cannot be joined or is too small, or a replica has other
                models.
        """
        works, runs = await self._plan(waiting, on_result)
        if not works:
            return
        # Ray says on standard output what happens to its processes.
        with redirect_stdout(sys.stderr):
            joined = await asyncio.to_thread(_join, self._replicas)
            try:
                await self._ask(works, runs, on_result)
            finally:
                if joined:
                    await asyncio.to_thread(_leave)

    async def _plan(
        self, waiting: Sequence[Run], on_result: OnResult
    ) -> tuple[list[dict[str, Any]], list[dict[str, Run]]]:
        """What the replicas are to do, a question each."""
        works: dict[str, dict[str, Any]] = {}
        runs: dict[str, dict[str, Run]] = {}
        for run in waiting:
            result = await self._replay.run(run)
            if result is not None:
                on_result(run, result, fresh=False)
                continue
            question = run.questions[0]
            work = works.setdefault(
                run.key,
                {
                    "number": len(works),
                    "id": question.id,
                    "given": graph_input(question),
                    "strategies": [],
                },
            )
            work["strategies"].append(run.strategy)
            runs.setdefault(run.key, {})[run.strategy] = run
        return list(works.values()), list(runs.values())

    async def _ask(
        self,
        works: Sequence[dict[str, Any]],
        runs: Sequence[dict[str, Run]],
        on_result: OnResult,
    ) -> None:
        import ray

        count, resources = _room(self._replicas, len(works))
        # Each run asks at most two models at once; the rest is for this process.
        room = 2 * count * self._concurrency + 8
        mailbox: Any = ray.remote(Mailbox).options(num_cpus=0, max_concurrency=room).remote()
        serving = asyncio.create_task(self._server.serve(mailbox.take.remote, mailbox.reply.remote))
        try:
            answers = await asyncio.to_thread(self._answers, works, count, resources, mailbox)
            while (answer := await asyncio.to_thread(next, answers, None)) is not None:
                if "fault" in answer:
                    raise ConfigError(answer["fault"])
                for result in answer["results"]:
                    on_result(runs[answer["number"]][result["strategy"]], result, fresh=True)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    def _answers(
        self,
        works: Sequence[dict[str, Any]],
        count: int,
        resources: Mapping[str, Any],
        mailbox: Any,
    ) -> Iterator[dict[str, Any]]:
        """The replicas' answers, as they come."""
        import ray
        from ray.data import ActorPoolStrategy, DataContext

        context = DataContext.get_current()
        context.enable_progress_bars = False
        # Ray holds tasks back by what their answers may take of its store: 128 MiB each, unless
        # it is told that they are small.
        context.target_max_block_size = _BLOCK_BYTES
        names = dict.fromkeys(image for work in works for image in work["given"]["images"])
        pictures = {name: ray.put(read_reference(name, allow_fetch=False)) for name in names}
        from .ray_replica import Replica

        replica: Any = Replica  # Ray's types know no classes with an asynchronous call

        # A question is a block, so that its answer comes when it is there.
        rows = ray.data.from_items(
            [{"work": json.dumps(work)} for work in works], override_num_blocks=len(works)
        ).map(
            replica,
            fn_constructor_kwargs={
                **self._replica_arguments,
                "pictures": pictures,
                "mailbox": mailbox,
            },
            compute=ActorPoolStrategy(
                size=count,
                max_concurrent_calls_per_actor=self._concurrency,
                max_tasks_in_flight_per_actor=self._concurrency,
            ),
            **resources,
        )
        return (json.loads(row["answer"]) for row in rows.iter_rows())


def _join(replicas: RayReplicas) -> bool:
    """Start or join Ray, quietly; False if this process has it already."""
    # Ray reads these when it is imported. It sends usage reports home unless it is told not to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray
    import ray.data

    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if replicas.address is not None:
        return _join_cluster(replicas.address)
    if ray.is_initialized():
        return False
    ray.init(
        "local",
        num_cpus=max(os.cpu_count() or 1, replicas.count or 1),
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    return True


def _join_cluster(address: str) -> bool:
    import ray

    try:
        _probe(address)
        if ray.is_initialized():
            return False
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # what Ray raises here differs by fault and version
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


def _leave() -> None:
    import ray

    ray.shutdown()


def _room(replicas: RayReplicas, works: int) -> tuple[int, dict[str, Any]]:
    """How many replicas there will be, and what each reserves.

    Raises:
        ConfigError: The cluster has no room for them.
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
    room = min(cpus_here, int(here.get("GPU", 0)) // gpus) if gpus else cpus_here
    count = replicas.count or (room if gpus else 1)
    if not 1 <= count <= room:
        raise ConfigError(
            f"Ray has room for {room} replicas of one CPU and {gpus} GPUs each, not for "
            f"{max(count, 1)}; ask for fewer with --replicas, or add machines."
        )
    count = min(count, works)
    # Ray gives an actor's libraries as many threads as it reserves CPUs.
    cpus = 1 if replicas.address else max(1, cpus_here // count)
    return count, {"num_cpus": cpus, "num_gpus": gpus}
