"""The audit's running test, alone and shared; what turns a gate off."""

import multiprocessing
from pathlib import Path

import numpy as np

from langgraph_mai.nodes.confidence import Calibration, Rate
from langgraph_mai.nodes.gate import Audit, AuditState

STREAMS, QUESTIONS, COIN = 2_000, 5_000, 0.05
CALIBRATION = Calibration(
    benchmark="own",
    cascade={},
    risk=0.02,
    delta=0.05,
    questions=500,
    losses_allowed=4,
    losses=3,
    threshold=0.9,
    figures={},
    confidence={"direct": [Rate(probability=0.1, rate=0.7, interval=(0.6, 0.8), questions=50)]},
)


def found_after(losses: np.ndarray) -> int | None:
    """Return after how many audited questions the audit fails; None if it does not."""
    state = AuditState(calibration="")
    for number, loss in enumerate(losses.tolist(), start=1):
        state = state.after(loss, 0.02, 0.05)
        if state.failed:
            return number
    return None


def streams(risk: float, audited) -> list[int | None]:
    rng = np.random.default_rng(7)
    return [found_after(rng.random(audited(rng)) < risk) for _ in range(STREAMS)]


def test_a_gate_at_its_risk_is_turned_off_in_at_most_delta_of_all_streams():
    false = [one for one in streams(0.02, lambda rng: rng.binomial(QUESTIONS, COIN)) if one]
    assert len(false) <= 0.05 * STREAMS


def test_a_loss_that_triples_is_found_within_400_audited_questions():
    found = [one for one in streams(0.06, lambda _: 400) if one]
    assert len(found) >= 0.9 * STREAMS


def test_a_late_shift_is_found_as_well():
    rng = np.random.default_rng(1)
    parts = [(rng.random(500) < 0.01, rng.random(600) < 0.06) for _ in range(300)]
    found = [one for own in parts if (one := found_after(np.concatenate(own)))]
    assert sum(one > 500 for one in found) >= 0.9 * len(parts)


def count(path: str, times: int) -> None:
    audit = Audit(CALIBRATION, Path(path))
    for number in range(times):
        audit.add(number % 5 == 0)


def test_processes_share_an_audit_and_lose_no_question(tmp_path):
    path = str(tmp_path / "audit.json")
    workers = [multiprocessing.Process(target=count, args=(path, 25)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    state = Audit(CALIBRATION, Path(path)).state()
    assert (state.questions, state.losses, state.failed) == (75, 15, True)
    alone = Audit(CALIBRATION, None)
    other = Audit(CALIBRATION.model_copy(update={"risk": 0.03}), Path(path))
    assert alone.state().questions == other.state().questions == 0
    assert alone.add(loss=True).losses == 1
