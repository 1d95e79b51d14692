"""What lmms-eval takes off an output before any of its metrics sees it."""

import re

_BLOCK = re.compile(r"<(think|analysis)>.*?</\1>", re.DOTALL)


def without_thinking(text: str) -> str:
    """The output without closed think blocks and outer blanks; an open block stays."""
    return _BLOCK.sub("", text).strip()
