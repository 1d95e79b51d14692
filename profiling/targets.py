"""What `mai profile` measures: models by name or of a pair, and a grid of sizes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ..configs import ConfigError, ModelConfig, load_pair_config
from .profile_rows import ProfileRow

ProfiledBackend = Literal["transformers", "vllm"]
BACKENDS: tuple[ProfiledBackend, ...] = get_args(ProfiledBackend)

_ROLES = ("small", "large")
_DEMO_PAIRS: dict[ProfiledBackend, str] = {"transformers": "demo", "vllm": "demo-vllm"}

_PROMPT_SIDE = 1024
"""Largest image of Table 3's prompts; the encoder alone is measured beyond."""
_DECODE_SIDE, _DECODE_QUERY = 512, 256
"""Largest image and question of Table 4."""


@dataclass(frozen=True, slots=True)
class Target:
    """One model as it is to be measured.

    Attributes:
        name: Hub name, folder or `demo:NAME`; with random weights a folder or a name of
            dimensions.yaml.
        backend: What runs it.
        random_weights: Whether its values are random.
        revision: Branch, tag or commit of a hub model.
        dtype: By name; "auto" is the checkpoint's, or bfloat16 for random weights of real
            dimensions.
        device: By name; "auto" is a GPU where there is one.
        attention: Attention implementation by the backend's own name; None for its default.
        memory: `vllm`: share of a GPU's memory that the engine takes.
        engine: `vllm`: engine options by vLLM's own names.
    """

    name: str
    backend: ProfiledBackend = "transformers"
    random_weights: bool = False
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    attention: str | None = None
    memory: float = 0.9
    engine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> ProfileRow:
        """The row of a profile that stands for the whole model, with the requested settings."""
        on_vllm = self.backend == "vllm"
        options = sorted(self.engine.items()) if on_vllm else []
        return ProfileRow(
            model=self.name,
            backend=self.backend,
            dtype=self.dtype,
            device=self.device,
            attention=self.attention or "auto",
            weights="random" if self.random_weights else "real",
            component="weights",
            revision=self.revision or "",
            engine=" ".join(
                f"{name}={json.dumps(value, sort_keys=True, default=str)}"
                for name, value in options
            ),
            memory=round(self.memory, 4) if on_vllm else None,
        )


def model_target(name: str, backend: ProfiledBackend, *, random_weights: bool = False) -> Target:
    """Return a model by its name; the demo pair's run as in their pair file."""
    demo = load_pair_config(_DEMO_PAIRS[backend])
    for role in _ROLES:
        if getattr(demo, role).model == name and not random_weights:
            return _target(getattr(demo, role), backend, demo.memory_of(role))
    return Target(name, backend, random_weights)


def pair_targets(
    pair: str, backend: ProfiledBackend | None, *, random_weights: bool = False
) -> list[Target]:
    """Return the two models of a pair as its file says.

    Args:
        pair: Name or file.
        backend: What runs them; None for what the file says.
        random_weights: Whether their values are random.

    Raises:
        ConfigError: No such pair, or one whose models run on a server.
    """
    config = load_pair_config(pair)
    found = []
    for role in _ROLES:
        runs = backend or config.backend_of(role)
        if runs == "server":
            raise ConfigError(
                f"The {role} model of {pair!r} runs on a server, where its components cannot be "
                "timed; name what runs it here with --backend transformers or --backend vllm."
            )
        target = _target(getattr(config, role), runs, config.memory_of(role))
        found.append(replace(target, random_weights=random_weights))
    return found


def demo_targets(backend: ProfiledBackend | None) -> list[Target]:
    """Return the demo pair, on transformers or another backend."""
    return pair_targets(_DEMO_PAIRS[backend or "transformers"], None)


def _target(model: ModelConfig, backend: ProfiledBackend, memory: float) -> Target:
    return Target(
        name=model.model,
        backend=backend,
        revision=model.revision,
        dtype=model.dtype,
        device=model.device,
        attention=model.attention if backend == "transformers" else None,
        memory=memory,
        engine=model.engine,
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured; the defaults are those of Tables 1 to 4 of arXiv 2604.04929.

    Attributes:
        image_sides: Pixels.
        query_tokens: Tokens of a prompt beside its image.
        output_tokens: Tokens generated.
        batches: Numbers of equal prompts.
        repeats: How often each is measured; decoding a third as often, but three times.
        warmup: Runs before that are not counted.
        longest: Seconds; what cannot be faster than that, by the floor, is skipped.
    """

    image_sides: Sequence[int] = (256, 512, 1024, 2048, 4096)
    query_tokens: Sequence[int] = (64, 256, 512)
    output_tokens: Sequence[int] = (8, 128, 256, 512)
    batches: Sequence[int] = (1,)
    repeats: int = 9
    warmup: int = 1
    longest: float = 60.0

    @property
    def decode_repeats(self) -> int:
        """How often decoding is measured: one run gives the times of all shorter outputs."""
        return min(self.repeats, max(3, self.repeats // 3))

    def queries(self, side: int) -> Sequence[int]:
        """Return the query tokens of the prompts with an image of this side."""
        return self.query_tokens if side <= _PROMPT_SIDE else ()

    def outputs(self, side: int, query: int) -> list[int]:
        """Return the output lengths of such a prompt, ascending."""
        decoded = side <= _DECODE_SIDE and query <= _DECODE_QUERY
        return sorted(self.output_tokens) if decoded else []

    def longest_sequence(self, image_tokens: Callable[[int], int]) -> int:
        """Return the tokens of the longest prompt with its output.

        Args:
            image_tokens: How many an image of a side takes.
        """
        return max(
            image_tokens(side) + tokens
            for side in self.image_sides
            for tokens in (
                # The encoder is measured with next to no query where the engine needs a prompt.
                min(self.query_tokens),
                *(
                    query + 1 + max(self.outputs(side, query), default=0)
                    for query in self.queries(side)
                ),
            )
        )
