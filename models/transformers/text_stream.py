"""From token ids to text as they arrive: whole characters only, cut before a stop string."""

from collections.abc import Callable, Sequence


class TextStream:
    """Turns tokens into text piece by piece; all pieces together are the text of the tokens.

    Text that might be the beginning of a stop string is held back until it is clear that it is not.

    Attributes:
        text: What was released so far.
        stopped: Whether a stop string was found; the text ends before it.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: Sequence[str] = ()) -> None:
        """Start with no tokens.

        Args:
            decode: Token ids to text, special tokens left out.
            stop: The text ends before the first of these; none may be empty.
        """
        self.text = ""
        self.stopped = False
        self._decode = decode
        self._stop = tuple(stop)
        self._held = ""
        self._tokens: list[int] = []
        # Only the last tokens are decoded again, those since `_start`: enough that a tokenizer
        # which writes a word differently at the start of a text does not do so here. Tokens before
        # `_shown` are part of the text already.
        self._start = 0
        self._shown = 0

    def push(self, token: int) -> str:
        """Add a token; returns the text that it releases, often none or more than its own."""
        self._tokens.append(token)
        known = self._decode(self._tokens[self._start : self._shown])
        whole = self._decode(self._tokens[self._start :])
        if len(whole) <= len(known) or whole.endswith("\ufffd"):  # half a character
            return ""
        self._start, self._shown = self._shown, len(self._tokens)
        return self._release(whole[len(known) :])

    def finish(self) -> str:
        """No more tokens; returns the text that was still held back."""
        if self.stopped:
            return ""
        known = self._decode(self._tokens[self._start : self._shown])
        rest = self._decode(self._tokens[self._start :])[len(known) :]
        self._start = self._shown = len(self._tokens)
        released = self._release(rest)
        if not self.stopped:
            released += self._held
            self.text += self._held
        self._held = ""
        return released

    def _release(self, text: str) -> str:
        pending = self._held + text
        found = [at for at in map(pending.find, self._stop) if at >= 0]
        if found:
            self.stopped = True
            released, self._held = pending[: min(found)], ""
        else:
            keep = len(pending) - max((_overlap(pending, stop) for stop in self._stop), default=0)
            released, self._held = pending[:keep], pending[keep:]
        self.text += released
        return released


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of the text that begins the stop string."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
