"""What names an engine, and how it is started: settings of this package and vLLM's own."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ModelError

# Set by this package from settings with other names.
_OURS = {
    "model": "model",
    "tokenizer": "model",
    "revision": "revision",
    "dtype": "dtype",
    "gpu_memory_utilization": "memory",
    "limit_mm_per_prompt": "max_images",
}


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Everything that makes one engine differ from another.

    Attributes:
        model: Local folder or hub name.
        revision: Branch, tag or commit of a hub model.
        dtype: Torch dtype by name, or "auto".
        device: "auto", "cpu" or "cuda": what this build of vLLM must run on.
        memory: Share of the device's memory, weights and KV cache together.
        max_images: Images that one prompt may hold.
        options: vLLM's own engine options as JSON, with sorted keys.
    """

    model: str
    revision: str | None
    dtype: str
    device: str
    memory: float
    max_images: int
    options: str

    def arguments(self) -> dict[str, Any]:
        """Arguments of vLLM's `AsyncEngineArgs`."""
        own = {
            "model": self.model,
            "revision": self.revision,
            "dtype": self.dtype,
            "gpu_memory_utilization": self.memory,
            "limit_mm_per_prompt": {"image": self.max_images, "video": 0},
            # As long as the memory allows: vision models name contexts that few GPUs can hold.
            "max_model_len": -1,
            "enable_prefix_caching": True,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
        }
        options: dict[str, Any] = json.loads(self.options)
        return own | options


def options_json(options: Mapping[str, Any]) -> str:
    """Engine options as `EngineSpec` holds them.

    Raises:
        ModelError: A value that JSON, and so a pair file, cannot hold.
    """
    try:
        return json.dumps(dict(options), sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ModelError(f"The engine options cannot be written as JSON ({error}).") from error


def check_engine_options(options: Mapping[str, Any]) -> None:
    """Refuse engine options that vLLM does not have, or that this package sets by another name.

    Raises:
        ModelError: With the option's name, and what to write instead.
        ModuleNotFoundError: vLLM is not installed.
    """
    if "hf_token" in options:
        raise ModelError(
            "The engine option hf_token would be written down with the others; set HF_TOKEN in the "
            "environment instead."
        )
    from dataclasses import fields

    from vllm.engine.arg_utils import AsyncEngineArgs

    known = {field.name for field in fields(AsyncEngineArgs)}
    for name in options:
        if name in _OURS:
            raise ModelError(
                f"The engine option {name!r} is set by the model's own {_OURS[name]!r}; write that "
                "instead."
            )
        if name not in known:
            near = difflib.get_close_matches(str(name), known - set(_OURS), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "see vLLM's engine arguments."
            raise ModelError(f"vLLM has no engine option {name!r}; {hint}")
