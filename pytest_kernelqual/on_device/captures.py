"""Capture launches into graphs, on one stream and in one pool of memory for all of a process."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

# Of a device's memory, what the pool may have taken when the next comparison begins.
_LARGEST_SHARE = 1 / 16


class _Pool:
    """Memory that captures take and leave to the next: to have it from the driver takes longer than most captures."""

    def __init__(self) -> None:
        self.handle: Any = torch.cuda.graph_pool_handle()
        self.taken_bytes = 0
        self._anchor = torch.cuda.CUDAGraph()  # a pool lasts as long as a graph of it
        with _capturing(self._anchor, self.handle):
            torch.zeros(1, device="cuda")


def bound_pool() -> None:
    """Begin with a new pool where this one has grown large; torch gives its memory back when it is needed."""
    if _pool().taken_bytes > _LARGEST_SHARE * torch.cuda.get_device_properties().total_memory:
        _pool.cache_clear()


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Capture into the pool.

    `torch.cuda.graph` gives all cached memory back first, and that takes longer than most captures.
    """
    before = torch.cuda.memory_reserved()
    try:
        with _capturing(graph, _pool().handle):
            yield
    except BaseException:
        _pool.cache_clear()  # torch may hold that the capture still goes on there
        raise
    _pool().taken_bytes += max(torch.cuda.memory_reserved() - before, 0)


@cache
def _pool() -> _Pool:
    return _Pool()


@cache
def _stream() -> torch.cuda.Stream:
    """Return the stream of all captures: only there is memory that one of them has let go another's."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


@contextmanager
def _capturing(graph: torch.cuda.CUDAGraph, handle: Any) -> Iterator[None]:
    torch.cuda.synchronize()
    with torch.cuda.stream(_stream()):
        graph.capture_begin(pool=handle, capture_error_mode="thread_local")
        try:
            yield
        finally:
            graph.capture_end()
