import pytest

from langgraph_mai.profiling.totals import Settings, total_seconds
from langgraph_mai.profiling.validation import TIMED, validate


@pytest.fixture(scope="module")
def validation(tmp_path_factory):
    return validate(4, tmp_path_factory.mktemp("validation"))


def test_every_strategy_is_timed_on_the_same_questions(validation):
    assert [row.strategy for row in validation.checked] == list(TIMED)
    for row in validation.checked:
        assert row.questions == 4
        assert row.measured > 0
        assert row.error == pytest.approx(row.predicted / row.measured - 1)


def test_routes_and_tokens_are_those_of_the_timed_run(validation):
    workload = validation.workload
    assert sum(workload.routes.values()) == workload.questions == 4
    assert workload.tokens["small", "direct"] < workload.tokens["small", "reason"]
    assert set(workload.reason_tokens) <= {"reasoned", "transferred"}


def test_predictions_come_from_the_simulators_totals(validation):
    predicted = {row.strategy: row.predicted for row in validation.checked}
    again = total_seconds("mai", validation.workload, validation.latencies, validation.settings)
    assert predicted["mai"] == pytest.approx(again)


def test_calls_that_share_a_device_hold_each_other_up(validation):
    def total(sharing):
        settings = Settings(overlap=True, sharing=sharing, floor=False)
        return total_seconds("mai", validation.workload, validation.latencies, settings)

    in_turns = total_seconds(
        "mai", validation.workload, validation.latencies, Settings(floor=False)
    )
    assert total(0.0) < total(0.5) < total(1.0) == pytest.approx(in_turns)
