"""Memory that outlives a launch, such as a cached workspace: no launch may find in it what another one left."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from pytest_kernelqual.on_device.guards import Buffer, below_autograd, plain_allocations

# Buffers that are looked at one by one; more of them are taken for constants.
_MOST_SINGLE = 16


class _Survivor(NamedTuple):
    """A buffer, and what it must hold when a launch begins; None for zeros."""

    buffer: Buffer
    content: torch.Tensor | None

    def prepare(self) -> None:
        middle, elements = self.buffer.middle(), self.buffer.elements
        content = torch.zeros_like(middle) if self.content is None else self.content
        # Gaps between elements are guard: they keep their pattern.
        middle.copy_(content if elements is None else torch.where(elements, content, middle))


class Survivors:
    """What the fixed launch left alive: scratch, emptied before every launch, or constants, put back before it.

    Emptied means zeroed and not poisoned: where a buffer holds indices or flags after all, zeros are the safe guess.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._survivors: list[_Survivor] = []

    def __len__(self) -> int:
        """Count them."""
        return len(self._survivors)

    def settle(self, buffers: Sequence[Buffer], unchanged: Callable[[], bool]) -> None:
        """Tell scratch from constants.

        Args:
            buffers: What outlived the fixed launch.
            unchanged: Launches it once more after `prepare`, and tells whether it gave the same bytes as before.
        """
        if not buffers:
            return
        with plain_allocations(), below_autograd():
            constants = [_Survivor(buffer, buffer.middle().clone()) for buffer in buffers]
        self._survivors = [_Survivor(buffer, None) for buffer in buffers]
        if unchanged():
            return
        found = list(constants)
        for place in range(min(len(buffers), _MOST_SINGLE)):
            self._survivors = [*constants[:place], _Survivor(buffers[place], None), *constants[place + 1 :]]
            if unchanged():
                found[place] = self._survivors[place]
        self._survivors = found
        if not unchanged():  # buffers that only together hold something
            self._survivors = constants

    def prepare(self) -> None:
        """Give every survivor what it must hold when a launch begins."""
        with plain_allocations(), below_autograd():
            for survivor in self._survivors:
                survivor.prepare()
