"""What the endpoint has done, for Prometheus, and whether its models answer."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from ..nodes.state import ModelCall

logger = logging.getLogger(__name__)

ROLES = ("small", "large")
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)


class Metrics:
    """Counters of one process, in a `registry` of their own."""

    def __init__(self) -> None:
        """Start at zero."""
        self.registry = own = CollectorRegistry()
        stage = ["role", "style"]
        self.requests = Counter("mai_requests", "Requests by status.", ["status"], registry=own)
        self.in_flight = Gauge("mai_in_flight", "Questions that run.", registry=own)
        self.waiting = Gauge("mai_waiting", "Questions that wait.", registry=own)
        self._questions = Counter(
            "mai_questions", "Answers by route.", ["model", "route"], registry=own
        )
        self._fallbacks = Counter("mai_fallbacks", "Fallbacks.", ["fallback"], registry=own)
        self._seconds = Histogram(
            "mai_call_seconds", "Seconds by stage.", stage, registry=own, buckets=_SECONDS
        )
        self._tokens = Counter("mai_tokens", "Tokens by model.", ["role", "kind"], registry=own)
        self._failures = Counter("mai_failed_calls", "Failed calls.", stage, registry=own)
        self._up = Gauge("mai_model_up", "Whether a model answers.", ["role"], registry=own)
        ProcessCollector(registry=own)
        self._errors: dict[str, str | None] = dict.fromkeys(ROLES, "it has not answered yet")
        self._noted = dict.fromkeys(ROLES, -math.inf)
        self._ready = False

    def answered(
        self, model: str, route: str, fallback: str | None, calls: Sequence[ModelCall]
    ) -> None:
        """Count a question that was answered, and the calls that it took."""
        self._questions.labels(model, route).inc()
        if fallback:
            self._fallbacks.labels(fallback).inc()
        for call in calls:
            if call["error"]:
                self.failed(call["role"], call["style"], call["error"])
            else:
                self._seconds.labels(call["role"], call["style"]).observe(call["seconds"])
                self.count_tokens(call["role"], call, call["cached_tokens"])

    def count_tokens(self, role: str, usage: Mapping[str, Any], cached: int | None) -> None:
        """Count the tokens of a call that succeeded."""
        counts = {"input": usage["input_tokens"], "output": usage["output_tokens"]}
        for kind, tokens in (counts | {"cached": cached}).items():
            self._tokens.labels(role, kind).inc(tokens or 0)
        self.note(role)

    def failed(self, role: str, style: str, error: str) -> None:
        """Count a call that failed."""
        self._failures.labels(role, style).inc()
        self.note(role, error)

    def note(self, role: str, error: str | None = None) -> None:
        """Note that a model answers, or why it does not."""
        if role not in ROLES:  # a verifier that is a model
            return
        former, self._errors[role] = self._errors[role], error
        self._noted[role] = time.monotonic()
        self._up.labels(role).set(error is None)
        if error and error != former:
            logger.warning("The %s model fails: %s", role, error)
        elif former and not error and self._ready:
            logger.info("The %s model answers again.", role)
        if not self._ready and not any(self._errors.values()):
            self._ready = True
            logger.info("Ready. Both models answer.")

    def is_silent(self, role: str, seconds: float) -> bool:
        """Whether a model failed last, or was not called for so long."""
        return bool(self._errors[role]) or time.monotonic() - self._noted[role] > seconds

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return an HTTP status and how the models do; why one fails is in the log."""
        models = {role: "failing" if error else "ok" for role, error in self._errors.items()}
        failing = list(models.values()).count("failing")
        state = ("ok", "degraded", "unavailable")[failing] if self._ready else "starting"
        status = 200 if state in {"ok", "degraded"} else 503
        return status, {"status": state, "models": models}
