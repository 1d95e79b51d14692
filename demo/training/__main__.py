"""Trains both demo models from nothing: `python -m langgraph_mai.demo.training --out DIR`.

Two stages run at a time, a core each. Finished stages are kept in DIR and not run again; the long
ones go on from their last saved step. The finished pair lies in DIR/release/small and /large.
"""

import argparse
import os
from pathlib import Path

from .stages import DEMO_SIZES, log, train


def release(folder: Path) -> None:
    """Write the two finished models as the checkpoints that the package carries."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    from .checkpoint import save_release

    for role in ("small", "large"):
        model = Qwen3VLForConditionalGeneration.from_pretrained(folder / role, dtype=torch.float32)
        save_release(model, folder / "release" / role)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m langgraph_mai.demo.training")
    parser.add_argument("--out", type=Path, required=True, help="folder for everything made")
    parser.add_argument("--jobs", type=int, default=2, help="stages at a time, a core each")
    options = parser.parse_args()
    # Waiting threads that spin slow the other stage down several times.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    train(options.out, DEMO_SIZES, options.jobs)
    release(options.out)
    log(f"the pair lies in {options.out / 'release'}")


if __name__ == "__main__":
    main()
