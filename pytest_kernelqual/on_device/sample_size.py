"""How many launches make a sample, on how many input sets, so that inputs come from memory where they should."""

import math
from typing import NamedTuple

import torch

from pytest_kernelqual.model.outcome import Cache

MOST_SETS = 1024
L2_FACTOR = 2
"""So many times the cache puts everything else out of it."""
_MOST_RING_BYTES = 8 << 30
_MOST_LAUNCHES = 20_000


def l2_bytes() -> int:
    """Return the size of the L2 cache of the current device."""
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size)


class SampleSize(NamedTuple):
    """How many launches make a sample, on how many input sets, and whether the L2 cache is emptied before it."""

    launches: int
    ring: int
    flushed: bool
    cache: Cache


def sample_size(wanted: int, footprint: int, l2: int, *, mutates: bool, cold: bool) -> SampleSize:
    """Return the size of a sample of about `wanted` launches.

    Inputs come from memory when the sets that are gone through in turn put each other out of the L2 cache, or when
    each set is used once a sample and the cache was emptied before.
    Launches that change their inputs get a set each, restored before the sample; where the cache does not hold as many,
    inputs come from memory.

    Args:
        wanted: Launches that take long enough.
        footprint: Bytes that a launch reads and writes at most.
        l2: Bytes of the cache.
        mutates: Whether launches change their inputs.
        cold: Whether inputs should come from memory.
    """
    launches = min(max(wanted, 1), _MOST_LAUNCHES)
    if mutates:
        launches = min(launches, MOST_SETS, max(1, _MOST_RING_BYTES // max(footprint, 1)))
        warm = not cold and launches * footprint <= l2 // L2_FACTOR
        return SampleSize(launches, launches, not warm, "warm" if warm else "cold")
    evicting = math.ceil(L2_FACTOR * l2 / max(footprint, 1))
    if cold and evicting <= min(launches, MOST_SETS):
        return SampleSize(launches, evicting, flushed=False, cache="cold")
    if cold and launches <= MOST_SETS:
        return SampleSize(launches, launches, flushed=True, cache="cold")
    return SampleSize(launches, 1, flushed=False, cache="warm")
