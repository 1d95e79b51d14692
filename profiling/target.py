"""What is profiled: models by name or of a pair, each on a backend. Nothing is loaded here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ..configs import ConfigError, ModelConfig, load_pair_config
from .profile_rows import ProfileRow

ProfiledBackend = Literal["transformers", "vllm"]
BACKENDS: tuple[ProfiledBackend, ...] = get_args(ProfiledBackend)

ROLES = ("small", "large")
_DEMO_PAIRS: dict[ProfiledBackend, str] = {"transformers": "demo", "vllm": "demo-vllm"}


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
        """The row of a profile that stands for the whole model, with settings as asked for."""
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
            engine=" ".join(f"{name}={_as_json(value)}" for name, value in options),
            memory=round(self.memory, 4) if on_vllm else None,
        )


def model_target(name: str, backend: ProfiledBackend, *, random_weights: bool = False) -> Target:
    """A model by its name; the demo pair's run as in their pair file."""
    demo = load_pair_config(_DEMO_PAIRS[backend])
    for role in ROLES:
        if getattr(demo, role).model == name and not random_weights:
            return _target(getattr(demo, role), backend, demo.memory_of(role))
    return Target(name, backend, random_weights)


def pair_targets(
    pair: str, backend: ProfiledBackend | None, *, random_weights: bool = False
) -> list[Target]:
    """The two models of a pair as its file says.

    Args:
        pair: Name or file.
        backend: What runs them; None for what the file says.
        random_weights: Whether their values are random.

    Raises:
        ConfigError: No such pair, or one whose models run on a server.
    """
    config = load_pair_config(pair)
    found = []
    for role in ROLES:
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
    """The demo pair, on transformers or another backend."""
    return pair_targets(_DEMO_PAIRS[backend or "transformers"], None)


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


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
