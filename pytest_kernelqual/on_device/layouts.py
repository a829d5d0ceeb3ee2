"""Layout probes: the same values in other memory."""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.profiles import LAYOUT_PROBES, NO_INPUT_TAKES_IT, NORMAL

_GAP = 3
"""Elements between rows: an odd number, so that rows are aligned no longer."""
_BEYOND = 1 << 31
_ALIGNED_ELEMENTS = 16
_NEEDED = {
    "strided": "an axis of more than one element",
    "misaligned": "elements",
    "beyond_2_31": "two axes of more than one element",
}
"""What an input must have to take a probe."""
# The block itself, its pristine copy, and room for the rest.
_BLOCKS_AT_ONCE = 3


class Exposure(NamedTuple):
    """How the inputs of a set differ from what the builder asks for."""

    profile: str = NORMAL
    probe: str = ""
    """A layout probe; empty for none."""
    probed: tuple[str, ...] | None = None
    """Names of the inputs that take the probe; None for all."""

    @classmethod
    def of(cls, name: str, probes: Mapping[str, tuple[str, ...] | None]) -> "Exposure":
        """Return what the name of an input set asks for: a profile, or a layout probe of the spec."""
        return cls(probe=name, probed=probes.get(name)) if name in LAYOUT_PROBES else cls(profile=name)

    @property
    def not_taken(self) -> str:
        """Say why nothing is run where no input is other than the builder asks for."""
        needed = _NEEDED.get(self.probe, "")
        unless = f"; one that does has {needed} and is neither adopted nor kept to a profile" if needed else ""
        return f"{NO_INPUT_TAKES_IT}{unless}"

    def layout(self, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Return strides and storage offset, in elements, of an input that is asked for with these strides."""
        if 0 in shape or (self.probed is not None and name not in self.probed):
            return strides, 0
        match self.probe:
            case "strided":
                return _with_gaps(shape, strides), 0
            case "misaligned":
                return strides, 1
            case "beyond_2_31":
                return _beyond(shape, strides), 0
        return strides, 0


PLAIN = Exposure()
CHEAP_LAYOUT_PROBES = ("strided", "misaligned")
"""Those that take little more memory than the builder asks for."""


def must_fit(name: str, size_bytes: int, device: torch.device) -> None:
    """Raise InputError, with the figures, where a device has not the memory for an input beyond 2**31 elements."""
    if device.type != "cuda":
        raise InputError("beyond_2_31 is probed on GPUs only")
    needed_bytes = _BLOCKS_AT_ONCE * size_bytes
    cached_bytes = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free_bytes = torch.cuda.mem_get_info(device)[0] + cached_bytes
    if needed_bytes > free_bytes:
        raise InputError(
            f"beyond_2_31 of input {name!r} needs {needed_bytes / 1e9:.1f} GB, and {free_bytes / 1e9:.1f} GB are free"
        )


def _with_gaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Set every axis but the innermost one apart; a single axis gets a stride of twice as much."""
    axes = _axes(shape, strides)
    wider = [*strides]
    if len(axes) == 1:
        wider[axes[0]] = 2 * strides[axes[0]]
    reach = 1
    for position, axis in enumerate(axes):
        if position:
            wider[axis] = max(strides[axis], reach) + _GAP
        reach += (shape[axis] - 1) * wider[axis]
    return tuple(wider)


def _beyond(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Put the last row 2**31 elements or more from the first; what has no rows stays."""
    axes = _axes(shape, strides)
    if len(axes) < 2:  # noqa: PLR2004 - rows of elements
        return strides
    outermost = axes[-1]
    stride = -(-_BEYOND // (shape[outermost] - 1))
    wider = [*strides]
    wider[outermost] = max(strides[outermost], -(-stride // _ALIGNED_ELEMENTS) * _ALIGNED_ELEMENTS)
    return tuple(wider)


def _axes(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """Return the axes of more than one element, the innermost first."""
    return sorted((axis for axis, size in enumerate(shape) if size > 1), key=lambda axis: strides[axis])
