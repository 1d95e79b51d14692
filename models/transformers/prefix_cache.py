"""Keys and values of earlier prompts, for prompts that begin alike."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from .key_values import KeyValues, count_bytes, first_tokens
from .prompt import Prompt

SHORTEST = 16
"""Shorter common prefixes (what a chat template begins with) are not worth copying."""

INDEX_BYTES = 160
"""Memory that finding a prompt takes, a token: its number, and its place in a tuple and a dict."""


@dataclass(frozen=True, slots=True)
class _Entry:
    chain: tuple[int, ...]
    known: KeyValues
    size: int


class PrefixCache:
    """Finds the longest common prefix; forgets what was not used for the longest time.

    Every prefix is listed with one of the prompts that begin with it, the one stored last.

    Used by a model's own thread alone, so it has no lock.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._by_prefix: dict[int, int] = {}
        self._next = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Memory that the keys and values take, and the index that finds them."""
        return self._bytes

    def find(self, chain: Sequence[int]) -> tuple[KeyValues, int] | None:
        """The longest common prefix with an earlier prompt.

        Args:
            chain: What `Prompt.chain` holds.

        Returns:
            The keys and values of the prefix and its tokens; None if it is shorter than `SHORTEST`.
        """
        low, high = 0, len(chain)
        # Whatever is known of a prefix is known of all shorter ones too.
        while low < high:
            middle = (low + high + 1) // 2
            if chain[middle - 1] in self._by_prefix:
                low = middle
            else:
                high = middle - 1
        if low < SHORTEST:
            return None
        number = self._by_prefix[chain[low - 1]]
        self._entries.move_to_end(number)
        return first_tokens(self._entries[number].known, low), low

    def find_before(self, prompt: Prompt, end: int) -> tuple[KeyValues, int] | None:
        """What is known of the beginning of a prompt.

        Args:
            prompt: The prompt.
            end: Its first token that has to be computed in any case.

        Returns:
            The keys and values of its first tokens, and how many they are: not past `end`, and
            never up to the middle of a picture. None if nothing is known.
        """
        found = self.find(prompt.chain[:end])
        if found is None:
            return None
        known, count = found
        computed = prompt.boundary(count)
        return (first_tokens(known, computed), computed) if computed else None

    def store(self, chain: tuple[int, ...], known: KeyValues, limit: int) -> None:
        """Keep a prompt's keys and values, and forget old ones until all fit.

        Args:
            chain: What `Prompt.chain` holds.
            known: Keys and values of all its tokens, which are nobody else's.
            limit: Bytes that all may take, the index included.
        """
        size = count_bytes(known) + len(chain) * INDEX_BYTES
        if size <= limit and len(chain) >= SHORTEST and chain[-1] not in self._by_prefix:
            number, self._next = self._next, self._next + 1
            self._entries[number] = _Entry(chain, known, size)
            self._bytes += size
            for prefix in chain:
                self._list(prefix, number)
        while self._bytes > limit:
            self._forget_oldest()

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._by_prefix.clear()
        self._bytes = 0

    def _list(self, prefix: int, number: int) -> None:
        # A dict keeps the first of equal keys; that of a forgotten prompt would not be freed.
        self._by_prefix.pop(prefix, None)
        self._by_prefix[prefix] = number

    def _forget_oldest(self) -> None:
        number, entry = self._entries.popitem(last=False)
        self._bytes -= entry.size
        listed = [at for at, prefix in enumerate(entry.chain) if self._by_prefix[prefix] == number]
        if not listed:
            return
        heir, common = self._most_alike(entry.chain, listed[0])
        for at in listed:
            if at < common:
                self._list(self._entries[heir].chain[at], heir)
            else:
                del self._by_prefix[entry.chain[at]]

    def _most_alike(self, chain: Sequence[int], at: int) -> tuple[int, int]:
        """The prompt that shares most with `chain`, and how many tokens; 0 if not that at `at`."""
        heir, common = 0, 0
        for number, entry in self._entries.items():
            if len(entry.chain) > at and entry.chain[at] == chain[at]:
                shared = _common_length(entry.chain, chain)
                if shared > common:
                    heir, common = number, shared
        return heir, common


def _common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two prompts share: equal prefixes have equal numbers, longer ones do not."""
    places = range(min(len(first), len(second)))
    return bisect_left(places, True, key=lambda at: first[at] != second[at])
