from dataclasses import replace
from random import Random

import pytest
from fakes import PROMPTS, models

from langgraph_mai import create_strategy
from langgraph_mai.graph import STRATEGIES
from langgraph_mai.profiling.call_components import RoleRuns, Sample, components
from langgraph_mai.profiling.latency import ROLES, ModelLatency
from langgraph_mai.profiling.strategy_calls import graph_nodes, planned_calls
from langgraph_mai.profiling.strategy_timer import TimedRun
from langgraph_mai.profiling.totals import Settings, call_seconds, total_seconds
from langgraph_mai.profiling.validation import Turn, compare, validate
from langgraph_mai.profiling.workload import Drafting, Workload

# A machine that is exactly as the simulator takes it. Times are in seconds.
PAIR = {
    "small": ModelLatency("small", ((50, 0.010), (100, 0.012)), 0.002, overhead_seconds=0.004),
    "large": ModelLatency("large", ((50, 0.015), (100, 0.018)), 0.003, overhead_seconds=0.005),
}
MACHINE = Settings(
    overlap=True,
    prefix_reuse=True,
    floor=False,
    sharing=0.3,
    question_seconds=0.0005,
    node_seconds=0.001,
)
TOKENS = {
    (role, style): count
    for role in ROLES
    for style, count in (("direct", 2), ("explain", 11), ("reason", 40))
}
DRAFTING = Drafting(0.9)
WORLD = Workload("demo", 1, {}, TOKENS, prompt_tokens=50, instruction_tokens=10, drafting=DRAFTING)
ROUTES = ["direct"] * 7 + ["reasoned"] * 2 + ["transferred"]


def call(role, style, seconds, read, cached, written, **drafts):
    return {
        "role": role,
        "style": style,
        "seconds": seconds,
        "input_tokens": read,
        "cached_tokens": cached,
        "output_tokens": written,
        **drafts,
    }


def made(role, style, read, cached, written):
    """A call on the machine."""
    return call(role, style, PAIR[role].call_seconds(read, written, cached), read, cached, written)


def run_of(strategy, calls, route="direct"):
    """A run on the machine, of calls one after the other; both clocks say the same."""
    graph = MACHINE.question_seconds + MACHINE.node_seconds * graph_nodes(strategy, route)
    seconds = graph + sum(one["seconds"] for one in calls)
    return clocked(TimedRun(strategy, seconds, "yes", route, calls))


def clocked(run):
    by_call = {(one["role"], one["style"]): one["seconds"] for one in run.calls}
    return replace(run, processor_seconds=run.seconds, call_processor_seconds=by_call)


def role_runs(role):
    transferring = "small_two_stage" if role == "small" else "full_transfer"
    reasoning = made("small", "reason", 50, 0, 40)
    return RoleRuns(
        fresh=run_of(f"{role}_direct", [made(role, "direct", 50, 0, 2)]),
        reason=run_of(f"{role}_reason", [made(role, "reason", 50, 40, 40)]),
        again=run_of(f"{role}_direct", [made(role, "direct", 50, 49, 2)]),
        transfer=run_of(transferring, [reasoning, made(role, "transfer", 90, 40, 2)]),
    )


def sample(route="direct"):
    return Sample({role: role_runs(role) for role in ROLES}, timed("mai", route))


def timed(strategy, route):
    """A run on the machine, whose calls say what they read and wrote."""
    world = replace(WORLD, routes={route: 1})
    calls = [
        call(
            planned.role,
            strategy.partition("_")[2] if stage == 0 else "transfer",
            call_seconds(planned, PAIR, MACHINE),
            round(planned.prompt_tokens),
            round(planned.prefix_tokens),
            planned.output_tokens,
            **({"drafted_tokens": 10, "accepted_tokens": 9} if planned.drafting else {}),
        )
        for stage, calls in enumerate(planned_calls(strategy, world, route))
        for planned in calls
    ]
    if strategy == "mai":
        styles = ["direct", "direct", "reason", "transfer"]
        calls = [one | {"style": style} for one, style in zip(calls, styles, strict=False)]
        first, second = (one["seconds"] for one in calls[:2])
        longest = max(first, second) + MACHINE.sharing * min(first, second)
        calls[:2] = [one | {"seconds": longest} for one in calls[:2]]
    seconds = total_seconds(strategy, world, PAIR, MACHINE)
    return clocked(TimedRun(strategy, seconds, "yes", route, calls))


def turns():
    return [
        Turn(sample(route), {name: timed(name, route) for name in STRATEGIES}) for route in ROUTES
    ]


def test_components_are_found_as_they_are():
    found = components([sample("direct"), sample("transferred")])
    for role in ROLES:
        latency, expected = found.latencies[role], PAIR[role]
        assert latency.seconds_per_token == pytest.approx(expected.seconds_per_token)
        assert latency.overhead_seconds == pytest.approx(expected.overhead_seconds)
        assert latency.prefill_seconds(50) == pytest.approx(expected.prefill_seconds(50))
        assert latency.prefill_per_token == pytest.approx(expected.prefill_per_token)
    assert found.sharing == pytest.approx(MACHINE.sharing)
    assert found.node_seconds == pytest.approx(MACHINE.node_seconds)
    assert found.question_seconds == pytest.approx(MACHINE.question_seconds)


def test_a_machine_that_is_as_the_simulator_takes_it_is_predicted_exactly():
    found = compare(turns())
    assert [row.strategy for row in found.checked] == list(STRATEGIES)
    for row in [*found.checked, *found.by_processor]:
        assert row.error == pytest.approx(0, abs=1e-6)
        assert row.error_bounds == pytest.approx((0, 0), abs=1e-6)
    assert found.workload.routes == {"direct": 7, "reasoned": 2, "transferred": 1}
    assert found.workload.drafting.accept_rate == pytest.approx(0.9)


def test_noise_widens_the_bounds_and_leaves_the_truth_between_them():
    rng = Random(1)

    def noisy(turn):
        runs = {
            name: replace(run, seconds=run.seconds * rng.uniform(0.5, 1.5))
            for name, run in turn.timed.items()
        }
        return Turn(turn.sample, runs)

    found = compare([noisy(turn) for turn in turns() * 6])
    # Only the wall's clock was stalled.
    assert all(row.error == pytest.approx(0, abs=1e-6) for row in found.by_processor)
    for row in found.checked:
        low, high = row.error_bounds
        assert low < row.error < high
        assert -0.3 < low < 0.05
        assert -0.05 < high < 0.3
    for part in found.components:
        assert part.bounds[0] - 1e-9 <= part.value <= part.bounds[1] + 1e-9


@pytest.mark.parametrize("route", ["direct", "reasoned", "transferred"])
def test_nodes_are_counted_as_the_graphs_run_them(route):
    small, large = models(route)
    for name in STRATEGIES:
        graph = create_strategy(name, small, large, prompts=PROMPTS)
        ran = [
            event["name"]
            for event in graph.stream({"question": "Is it red?"}, stream_mode="tasks")
            if "result" in event
        ]
        assert len(ran) == graph_nodes(name, route)


@pytest.fixture(scope="module")
def validation(tmp_path_factory):
    return validate(3, tmp_path_factory.mktemp("validation"))


def test_every_strategy_is_timed_on_the_same_questions(validation):
    assert [row.strategy for row in validation.checked] == list(STRATEGIES)
    assert [row.strategy for row in validation.by_processor] == list(STRATEGIES)
    for row in [*validation.checked, *validation.by_processor]:
        assert row.questions == 3
        assert row.measured > 0
        assert row.error == pytest.approx(row.predicted / row.measured - 1)


def test_routes_and_tokens_are_those_of_the_timed_run(validation):
    workload = validation.workload
    assert sum(workload.routes.values()) == workload.questions == 3
    assert workload.tokens["small", "direct"] < workload.tokens["small", "reason"]
    assert set(workload.reason_tokens) <= {"reasoned", "transferred"}
    assert 0 < workload.instruction_tokens < workload.prompt_tokens
    assert 0.5 < workload.drafting.accept_rate <= 1


def test_predictions_come_from_the_simulators_totals(validation):
    for row in validation.checked:
        again = total_seconds(
            row.strategy,
            validation.workload,
            validation.predicted_from.latencies,
            validation.settings,
        )
        assert row.predicted == pytest.approx(again)


def test_calls_that_share_a_device_hold_each_other_up(validation):
    def total(sharing):
        settings = Settings(overlap=True, sharing=sharing, floor=False)
        return total_seconds(
            "mai", validation.workload, validation.predicted_from.latencies, settings
        )

    in_turns = total_seconds(
        "mai",
        validation.workload,
        validation.predicted_from.latencies,
        Settings(floor=False),
    )
    assert total(0.0) < total(0.5) < total(1.0) == pytest.approx(in_turns)
