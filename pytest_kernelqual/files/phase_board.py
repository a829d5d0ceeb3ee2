"""What a device process is at: a few bytes of memory that its owner shares, so that to tell it wakes nobody.

Phases change several times a millisecond, and who owns the process wants to know only when it has not answered.
"""

import mmap
import os
import struct
import sys
import tempfile
import time
from contextlib import suppress
from typing import IO, NamedTuple, get_args

from pytest_kernelqual.model.outcome import Phase

_PHASES: tuple[Phase, ...] = get_args(Phase)
_NUMBER = struct.Struct("=Q")
_ENTRY = struct.Struct("=dQQ")
_BYTES = _NUMBER.size + 2 * _ENTRY.size


class Whereabouts(NamedTuple):
    """A phase of one request."""

    phase: Phase
    launches: int
    """Finished ones when it began."""
    began_s: float
    """By the monotonic clock, which all processes of a machine share."""


def shared_memory() -> IO[bytes]:
    """Return an unnamed file for a board, in memory where the system has such files: a full disk must not matter."""
    file = _in_memory() or tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
    file.write(bytes(_BYTES))
    return file


def _in_memory() -> IO[bytes] | None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # some sandboxes forbid it, and some builds of Python lack it
            return os.fdopen(os.memfd_create("kernelqual-phase"), "r+b", buffering=0)
    return None


class PhaseBoard:
    """One process writes, another reads: entries take turns in two places, so that the last one is always whole."""

    def __init__(self, descriptor: int) -> None:
        """Map the file that both share."""
        self._memory = mmap.mmap(descriptor, _BYTES)
        self._written = 0

    def write(self, phase: Phase, launches: int) -> None:
        """Note that a phase begins."""
        self._written += 1
        entry = _PHASES.index(phase), launches
        _ENTRY.pack_into(self._memory, _place(self._written), time.monotonic(), *entry)
        _NUMBER.pack_into(self._memory, 0, self._written)

    def read(self) -> Whereabouts | None:
        """Return the phase that began last; None before the first."""
        while True:
            (number,) = _NUMBER.unpack_from(self._memory, 0)
            began_s, phase, launches = _ENTRY.unpack_from(self._memory, _place(number))
            if _NUMBER.unpack_from(self._memory, 0) == (number,):
                return Whereabouts(_PHASES[phase], launches, began_s) if number else None


def _place(number: int) -> int:
    return _NUMBER.size + number % 2 * _ENTRY.size
