"""Results that several threads want, made once and kept while they fit."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")


class SharedCache(Generic[_Value]):
    """Makes each result once, also when threads ask for it at the same moment.

    What was not used for the longest time is forgotten first. Failures are not kept.

    Attributes:
        limit: Bytes that the results may take together; 0 keeps none.
    """

    def __init__(self, limit: int, size: Callable[[_Value], int]) -> None:
        """Start empty.

        Args:
            limit: Bytes that the results may take together.
            size: Bytes that one result takes.
        """
        self.limit = limit
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[_Value, int]] = OrderedDict()
        self._coming: dict[Hashable, Future[_Value]] = {}
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """The result of a key; `make` is called unless it is kept or another thread makes it.

        Args:
            key: What the result depends on.
            make: Makes it; what it raises reaches everyone who waits for this result.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            coming = self._coming.get(key)
            if coming is None:
                mine: Future[Any] = Future()
                self._coming[key] = mine
        if coming is not None:
            return coming.result()
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._coming[key]
            mine.set_exception(error)
            raise
        self._keep(key, value)
        mine.set_result(value)
        return value

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _keep(self, key: Hashable, value: _Value) -> None:
        size = self._size(value)
        with self._lock:
            del self._coming[key]
            if size > self.limit:
                return
            self._kept[key] = (value, size)
            self._bytes += size
            while self._bytes > self.limit:
                _, (_, freed) = self._kept.popitem(last=False)
                self._bytes -= freed
