"""Trains both demo models: `python -m langgraph_mai.demo.training --out DIR [--start PAIR]`.

Finished stages are kept in DIR and not run again; the long ones resume from their last saved step.
The finished pair lies in DIR/release/small and /large.
"""

import argparse
import os
from pathlib import Path

from .stages import FURTHER, PLANS, log, train


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m langgraph_mai.demo.training")
    parser.add_argument("--out", type=Path, required=True, help="folder for everything made")
    parser.add_argument("--start", type=Path, help="folder of a pair to train further")
    options = parser.parse_args()
    # Waiting threads that spin slow the other model's training down several times.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    train(options.out, FURTHER if options.start else PLANS, options.start)
    log(f"the pair lies in {options.out / 'release'}")


if __name__ == "__main__":
    main()
