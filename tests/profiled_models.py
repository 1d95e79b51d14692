"""A model that takes and computes exactly what it says, for profiles whose figures are known."""

from dataclasses import dataclass, field
from typing import Any

import torch

from langgraph_mai.profiling.profiled_model import DoesNotFit, Pictures


@dataclass
class KnownSizes:
    """As `ModelSizes` has them; each figure is simple and no two are alike."""

    vision_bytes: int = 3_000
    text_bytes: int = 7_000
    context: int = 10_000

    def image_tokens(self, side: int) -> int:
        return side // 32

    def vision_flops(self, side: int, batch: int) -> float:
        return 11.0 * side * batch

    def prefill_flops(self, tokens: int, batch: int) -> float:
        return 13.0 * tokens * batch

    def step_flops(self, context: float, batch: int) -> float:
        return 17.0 * context * batch

    def cache_bytes(self, tokens: float) -> float:
        return 19.0 * tokens

    def vision_work_bytes(self, side: int, batch: int, *, square: bool) -> float:
        return 0.0


@dataclass
class KnownModel:
    """A `ProfiledModel` that runs nothing: its seconds are given, and its runs are noted."""

    name: str = "known"
    backend: str = "transformers"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    attention: str = "sdpa"
    threads: int | None = None
    sizes: Any = field(default_factory=KnownSizes)
    prepared_bytes: int = 500
    counted_flops: int | None = None
    prepare_seconds: float = 0.002
    encode_seconds: float = 0.003
    first_seconds: float = 0.02
    step_seconds: float = 0.005
    runs: list[str] = field(default_factory=list)

    def load(self) -> None:
        """Nothing to load."""

    def pictures(self, side: int, batch: int) -> Pictures:
        return Pictures(side, [], self.sizes.image_tokens(side), self.prepared_bytes, {})

    def preprocess(self, pictures: Pictures) -> float:
        self.runs.append("preprocess")
        return self.prepare_seconds

    def encode(self, pictures: Pictures) -> float:
        self.runs.append("encode")
        return self.encode_seconds

    def write(self, pictures: Pictures, query_tokens: int, tokens: int) -> list[float]:
        self.runs.append(f"write {tokens}")
        return [self.first_seconds + count * self.step_seconds for count in range(tokens)]

    def check_room(self, batch: int, tokens: int) -> None:
        if tokens > self.sizes.context:
            raise DoesNotFit("longer than the context")

    def flops(self, run: Any) -> int | None:
        return self.counted_flops

    def close(self) -> None:
        """Nothing to free."""
