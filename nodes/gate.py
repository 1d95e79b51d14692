"""The gate: where the small model is sure enough, the large one is not called.

Its threshold bounds the share of all questions on which skipping changes the cascade's answer
(`benchmarks.calibration` finds it). What is certified for some questions need not hold for others,
so a random part of them is audited: the cascade runs although the small model was sure, and a
running test turns the gate off once it shows more losses than were allowed.
"""

import hashlib
import json
import random
import threading
import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from filelock import FileLock
from pydantic import Field, TypeAdapter

from ..answers import agree
from ..configs import PromptsConfig
from ..configs.files import write_whole
from ..models.capabilities import chat_models
from .call_cache import model_identity
from .caller import Caller, ChatModel, Node, Update, emit
from .confidence import Calibration, load_calibration, rate_at, standing_call
from .model_call import read_answer
from .state import Fallback, GateDecision, ModelCall, Route, RunState, Task

_ELSEWHERE = {"base_url", "headers", "query"}
"""Where a server is plays no part, as its weights are known by name only."""

_EXCESS = 2.7
"""The audit bets on so many times the risk; chosen in simulations of 2% that becomes 6%."""
_EVERY, _BET_LATER = 25, 0.05

_LOCK_SECONDS = 10.0
"""How long a question waits for the file of the audit."""


def describe_cascade(
    small: ChatModel, large: ChatModel, prompts: PromptsConfig, transfer: object, verifier: object
) -> dict[str, Any]:
    """Return what a calibration is bound to, as JSON values.

    Weights are hashed for it; a hub model that is not on this machine is downloaded.

    Args:
        small: The small model.
        large: The large model.
        prompts: The texts around a question.
        transfer: As for `create_mai`.
        verifier: As for `create_mai`.

    Raises:
        ModelError: A hub model cannot be loaded.
    """
    models = {
        role: [
            {key: value for key, value in model_identity(one).items() if key not in _ELSEWHERE}
            for one in chat_models(model)
        ]
        for role, model in (("small", small), ("large", large))
    }
    names = {"transfer": transfer, "verifier": verifier}
    return {
        **models,
        "prompts": prompts.model_dump(mode="json"),
        **{key: getattr(one, "__qualname__", None) or repr(one) for key, one in names.items()},
    }


def is_loss(route: Route, fallback: Fallback | None, calls: Mapping[Any, ModelCall]) -> bool:
    """Return whether the cascade's answer differs from the small model's direct one.

    Args:
        route: How far the run went.
        fallback: Who answered instead.
        calls: The run's calls by their keys.
    """
    small, standing = calls["small_direct"], standing_call(route, fallback, calls)
    return standing is None or agree(read_answer(small), read_answer(standing)) != "agree"


@dataclass(frozen=True, slots=True)
class AuditState:
    """What an audit has seen so far.

    It bets that losses are more frequent than the risk; no bet gains on average while the risk is
    kept, so the chance that the wealth ever reaches 1 / delta is at most delta (Ville's inequality;
    Waudby-Smith and Ramdas, arXiv 2010.09686). A part of it is bet later, bit by bit: so a gate
    that was good for long is still found soon once it is not.

    Attributes:
        calibration: A hash of the calibration that is audited.
        questions: Number of audited questions, those included that were not sure enough.
        losses: On how many of them the gate would have changed the answer.
        bets: Wealth that is bet.
        reserve: Wealth that is not bet yet.
        failed: Whether the risk was exceeded; once it was, that stays.
    """

    calibration: str
    questions: Annotated[int, Field(ge=0)] = 0
    losses: Annotated[int, Field(ge=0)] = 0
    bets: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.7
    reserve: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.3
    failed: bool = False

    def after(self, loss: bool, risk: float, delta: float) -> "AuditState":
        """Return the state after one more audited question."""
        expected = min(_EXCESS * risk, (1 + risk) / 2)
        more = _BET_LATER * self.reserve if self.questions % _EVERY == 0 else 0.0
        bets = (self.bets + more) * (expected / risk if loss else (1 - expected) / (1 - risk))
        reserve = self.reserve - more
        failed = self.failed or bets + reserve >= 1 / delta
        counts = self.questions + 1, self.losses + loss
        return AuditState(self.calibration, *counts, bets, reserve, failed)


_STORED = TypeAdapter(AuditState)


class Audit:
    """The audit of a calibration; threads and processes may share its file."""

    def __init__(self, calibration: Calibration, path: Path | None) -> None:
        """Continue the audit of a file, or begin one; None keeps it in this process."""
        digest = hashlib.sha256(calibration.model_dump_json().encode()).hexdigest()
        self._limits = calibration.risk, calibration.delta
        self._state = self._fresh = AuditState(calibration=digest)
        self._path = path
        self._lock: Any = (
            threading.Lock() if path is None else FileLock(f"{path}.lock", timeout=_LOCK_SECONDS)
        )

    def state(self) -> AuditState:
        """Return what was seen so far.

        Raises:
            OSError: The file cannot be read.
            ValueError: It holds no audit.
        """
        if self._path is None:
            return self._state
        try:
            found = _STORED.validate_json(self._path.read_bytes(), strict=True)
        except FileNotFoundError:
            return self._fresh
        return found if found.calibration == self._fresh.calibration else self._fresh

    def add(self, loss: bool) -> AuditState:
        """Count an audited question, and return what was seen so far.

        Raises:
            OSError: The file cannot be read, or another process keeps it locked.
            ValueError: It holds no audit, or cannot be written.
        """
        with self._lock:
            self._state = self.state().after(loss, *self._limits)
            if self._path is not None:
                write_whole(self._path, json.dumps(asdict(self._state)))
            return self._state


class Gate:
    """A calibration and its audit, as `create_mai(gate=)` takes them.

    Attributes:
        calibration: What `mai calibrate` measured.
        audit_share: Share of all questions that are audited.

    Example:
        >>> create_mai(small, large, gate=Gate("calibration.json", audit="audit.json"))
    """

    def __init__(
        self,
        calibration: str | Path | Calibration,
        *,
        audit: str | Path | None = None,
        audit_share: float = 0.05,
    ) -> None:
        """Read a calibration.

        Args:
            calibration: The file of `mai calibrate`, or what was read from it.
            audit: The file that holds the audit's state, for all processes that name it; None keeps
                it in this object.
            audit_share: Share of all questions that are audited; 0 for none.

        Raises:
            ConfigError: There is no such calibration.
        """
        if not isinstance(calibration, Calibration):
            calibration = load_calibration(calibration)
        self.calibration = calibration
        self.audit_share = audit_share
        self._audit = Audit(self.calibration, None if audit is None else Path(audit))
        self._cascade: Any = ()

    def bind(
        self,
        small: ChatModel,
        large: ChatModel,
        prompts: PromptsConfig,
        transfer: object,
        verifier: object,
    ) -> "Gate":
        """Return the gate of one cascade; see `describe_cascade`."""
        bound = copy(self)
        bound._cascade = small, large, prompts, transfer, verifier
        return bound

    def why_off(self, task: Task) -> str | None:
        """Return why nothing is skipped, in one sentence; None if the gate is on."""
        if changed := sorted(set(task.get("settings", {})) - {"timeout"}):
            return f"The gate is off: this run changes {', '.join(changed)}."
        if self._mismatch is not None:
            return self._mismatch
        try:
            return self._exceeded(self._audit.state())
        except (OSError, ValueError) as error:
            return f"The gate is off: the file of its audit cannot be read ({error})."

    def decide(self, call: ModelCall, task: Task) -> GateDecision:
        """Return whether the small model's direct answer stands, and whether the coin falls on it.

        The coin falls on every question, whatever its probability: so the mean loss of the audited
        ones is the risk that was certified.
        """
        off, probability = self.why_off(task), call["probability"]
        threshold = self.calibration.threshold
        if off is not None or threshold is None or probability is None:
            confident = False
        else:
            confident = probability >= threshold
        return {
            "confident": confident,
            "audited": off is None and random.random() < self.audit_share,
            "off": off,
        }

    def conclude(
        self,
        decision: GateDecision | None,
        task: Task,
        route: Route,
        fallback: Fallback | None,
        calls: Mapping[Any, ModelCall],
    ) -> tuple[float | None, GateDecision]:
        """Count an audited question; return the answer's confidence, and the gate as it is now.

        Args:
            decision: What `decide` returned; None where nothing is ever skipped.
            task: The question.
            route: How far the run went.
            fallback: Who answered instead.
            calls: The run's calls by their keys.
        """
        own: GateDecision = decision or {
            "confident": False, "audited": False, "off": self.why_off(task),
        }  # fmt: skip
        if own["audited"] and not any(call["error"] for call in calls.values()):
            loss = own["confident"] and is_loss(route, fallback, calls)
            try:
                own = {**own, "off": self._exceeded(self._audit.add(loss))}
            except (OSError, ValueError) as error:
                own = {**own, "off": f"The gate is off: its audit cannot be kept ({error})."}
        standing = standing_call(route, fallback, calls)
        rates = self.calibration.confidence.get(route)
        if own["off"] or standing is None or standing["probability"] is None or not rates:
            return None, own
        return rate_at(rates, standing["probability"]), own

    def _exceeded(self, audit: AuditState) -> str | None:
        if not audit.failed:
            return None
        return (
            f"The gate is off: {audit.losses} losses in {audit.questions} audited questions show "
            f"more than its risk of {self.calibration.risk:.3g}; calibrate again with questions of "
            "today."
        )

    @cached_property
    def _mismatch(self) -> str | None:
        """Why the calibration is not this cascade's; said once as a warning."""
        held, now = self.calibration.cascade, describe_cascade(*self._cascade)
        if others := [name for name in now if held.get(name) != now[name]]:
            reason = (
                "The gate is off: its calibration is of other models or settings "
                f"({', '.join(others)}); run `mai calibrate` again."
            )
            warnings.warn(reason, stacklevel=2)
            return reason
        return None


def gated_node(node: Node, gate: Gate) -> Node:
    """Return the small agent's node, which then decides whether its answer stands."""

    async def steps(state: RunState, caller: Caller) -> Update:
        update = await node.steps(state, caller)
        decision = await caller.run(gate.decide, update["small_direct"], state["task"])
        emit({"event": "gate", **decision})
        return {**update, "gate": decision}

    return Node(node.get_name(), steps, node.cache)


def after_small_agent(state: RunState) -> Literal["respond", "large_agent"]:
    """Respond where the small model is sure enough and the question is not audited."""
    gate = state["gate"]
    return "respond" if gate and gate["confident"] and not gate["audited"] else "large_agent"
