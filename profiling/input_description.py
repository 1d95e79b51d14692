"""What a simulation computes with, in words, so that nobody takes one pair for another."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from .latency import Latencies
from .paper_tables import LARGE, SMALL
from .workload import Workload


def describe_inputs(
    profile: Path | None,
    routes: Path | None,
    tokens: Path | None,
    latencies: Latencies,
    workloads: Sequence[Workload],
) -> list[str]:
    """Where the figures are from, and which prompts are outside of what was measured.

    Args:
        profile: Folder of the latencies, None for the paper's tables.
        routes: File of the routes, None for the paper's.
        tokens: File of the tokens, None for the paper's.
        latencies: What was read.
        workloads: What was read.

    Returns:
        A sentence each.
    """
    source = f"the profile {str(profile)!r}" if profile else "the paper's Tables 3 and 4"
    pair = f"small {latencies['small'].model}, large {latencies['large'].model}"
    said = [f"Latencies: {source}, {pair}."]
    named = "Routes and scores" if any(workload.scores for workload in workloads) else "Routes"
    pairs = list(dict.fromkeys(workload.models for workload in workloads if workload.models))
    of_models = "".join(f", of {small} and {large}" for small, large in pairs)
    paper = f"the paper's, of {SMALL} and {LARGE}"
    said.append(f"{named}: {f'{str(routes)!r}{of_models}' if routes else paper}.")
    # Without a profile, the models are the paper's own, and so are their tokens.
    whose = (
        paper if profile else f"the paper's, of {' and '.join(m.model for m in latencies.values())}"
    )
    said.append(f"Tokens: {repr(str(tokens)) if tokens else whose}.")
    return [*said, *_unmeasured(latencies, workloads)]


def _unmeasured(latencies: Latencies, workloads: Sequence[Workload]) -> Iterator[str]:
    """Prompts that are shorter or longer than any that was measured."""
    for workload in workloads:
        for role, latency in latencies.items():
            shortest, longest = latency.prefill[0][0], latency.prefill[-1][0]
            prompt = f"{workload.name}: prompts have {workload.prompt_tokens:.0f} tokens"
            if workload.prompt_tokens < shortest:
                yield (
                    f"{prompt} and cost the {role} model as much as the shortest ones that were "
                    f"measured ({shortest})."
                )
            elif workload.prompt_tokens > longest:
                yield (
                    f"{prompt}, more than were measured of the {role} model ({longest}): the time "
                    "goes on from there in a straight line."
                )
