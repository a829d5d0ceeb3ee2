"""Guard bands: the layout of a guarded buffer, and the check of its guards.

A buffer is the middle of a larger block. The tensor's storage covers the middle alone, as in production (offset 0,
exact size), so that neither `resize_` nor a view can reach the guards; only a stray write does.
"""

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

_ALIGNMENT_BYTES = 512  # of CUDA's caching allocator; the CPU's is 64
_LEAST_GUARD_BYTES = 16 << 10  # a tile of 64 rows of 256 bytes; between least and most, a quarter of the buffer
_MOST_GUARD_BYTES = 256 << 10

below_autograd: Any = torch._C._AutoDispatchBelowADInplaceOrView  # noqa: SLF001 - what torch.library's own kernels use
no_torch_function: Any = torch._C.DisableTorchFunction  # noqa: SLF001 - hides our operations from the user's modes
# Exporting a slice and importing it again gives it a storage of its own that keeps the whole block alive.
_to_dlpack: Callable[[Tensor], Any] = torch._C._to_dlpack  # noqa: SLF001 - without the negotiation of streams
_from_dlpack: Callable[[Any], Tensor] = torch._C._from_dlpack  # noqa: SLF001 - the same
_use_count: Callable[[int], int] = torch._C._storage_Use_Count  # noqa: SLF001 - tells whether any tensor still lives
memcmp = ctypes.CDLL(None).memcmp
memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_DEAD_USE_COUNT = 2  # the block's own tensor and the Python object made for asking


@dataclass(frozen=True)
class Damage:
    """Bytes around or between the elements of a buffer that a launch changed."""

    name: str
    """The buffer: `input x`, or `allocation 3 (64, 128) float32`, counted from 1 in each launch."""
    where: Literal["before", "after", "gap"]
    offset_bytes: int
    """Offset from the buffer's first byte to the changed byte nearest to the buffer; negative before it."""
    count: int
    """Changed bytes."""

    def __str__(self) -> str:
        """Say it in one line."""
        place = {"before": "before", "after": "after the end of", "gap": "between the elements of"}[self.where]
        return f"{self.count} bytes written {place} {self.name}, at byte {self.offset_bytes:+d} from its start"


class Layout(NamedTuple):
    """Where a tensor lies in its block: guard, buffer, guard."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    size_bytes: int
    """From the first element to the end of the last."""
    guard_bytes: int
    has_gaps: bool

    @classmethod
    def of(cls, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, *, dense: bool = False) -> "Layout":
        """Lay out a tensor of at least one element; strides in elements; `dense` says that there are no gaps."""
        last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        size_bytes = (last + 1) * dtype.itemsize
        guard_bytes = min(max(_aligned(size_bytes // 4), _LEAST_GUARD_BYTES), _MOST_GUARD_BYTES)
        axes = () if dense else _axes(shape, strides)
        gaps = not dense and (_overlap(axes) or math.prod(size for size, _ in axes) * dtype.itemsize < size_bytes)
        return cls(tuple(shape), tuple(strides), dtype, size_bytes, guard_bytes, gaps)

    @property
    def block_bytes(self) -> int:
        """Bytes of buffer and guards."""
        return self.guard_bytes + _aligned(self.size_bytes) + self.guard_bytes


class Buffer(NamedTuple):
    """A block, what lies in it, and the byte that its guards hold."""

    block: Tensor
    layout: Layout
    pattern: int
    name: str

    def tensor(self) -> Tensor:
        """Fill the block and return the tensor in its middle, which keeps the block alive."""
        shape, strides, dtype, size_bytes, guard_bytes, _ = self.layout
        with below_autograd(), no_torch_function():
            if self.block.is_cpu:  # not fill_: waking torch's threads costs more than the work
                ctypes.memset(self.block.data_ptr(), self.pattern, self.block.numel())
            else:
                self.block.fill_(self.pattern)
            middle = self.block.narrow(0, guard_bytes, size_bytes)
            return _from_dlpack(_to_dlpack(middle)).view(dtype).as_strided_(shape, strides)

    def is_dead(self) -> bool:
        """Tell whether no tensor uses the buffer any more."""
        return _use_count(self.block.untyped_storage()._cdata) <= _DEAD_USE_COUNT  # noqa: SLF001 - see _use_count

    def label(self) -> str:
        """Name the buffer for people."""
        if self.name.startswith("input "):
            return self.name
        return f"{self.name} {self.layout.shape} {str(self.layout.dtype).removeprefix('torch.')}"

    def regions(self) -> Iterator[tuple[Literal["before", "after", "gap"], int, Tensor]]:
        """Yield (where, offset from the buffer's first byte, bytes), of which all must hold the pattern."""
        guard_bytes, size_bytes = self.layout.guard_bytes, self.layout.size_bytes
        yield "before", -guard_bytes, self.block[:guard_bytes]
        yield "after", size_bytes, self.block[guard_bytes + size_bytes :]
        if self.layout.has_gaps:
            middle = self.block[guard_bytes : guard_bytes + size_bytes].clone()
            fill_elements(middle, self.layout.shape, self.layout.strides, self.layout.dtype.itemsize, self.pattern)
            yield "gap", 0, middle

    def repaired(self) -> Iterator[Damage]:
        """Yield the damage of the buffer and undo it."""
        for where, offset, region in self.regions():
            places = (region != self.pattern).nonzero().flatten()
            if places.numel():
                nearest = offset + int(places[-1 if where == "before" else 0].item())
                yield Damage(self.label(), where, nearest, places.numel())
                self.block[self.layout.guard_bytes + offset + places] = self.pattern


def damaged(buffers: list[Buffer]) -> list[Damage]:
    """Return the damage of buffers and undo it; waits once for each device where there is none."""
    return [] if _intact(buffers) else [damage for buffer in buffers for damage in buffer.repaired()]


def _intact(buffers: list[Buffer]) -> bool:
    guards: dict[tuple[torch.device, int], list[Tensor]] = {}
    for buffer in buffers:
        guards.setdefault((buffer.block.device, buffer.pattern), []).extend(part for _, _, part in buffer.regions())
    changed: dict[torch.device, list[Tensor]] = {}
    for (device, pattern), parts in guards.items():
        if device.type == "cpu":
            if not all(_holds(part, pattern) for part in parts):
                return False
        else:
            least, most = torch.aminmax(torch.cat(parts))  # many times faster than comparing each byte
            changed.setdefault(device, []).append((least != pattern) | (most != pattern))
    return not any(torch.stack(flags).any().item() for flags in changed.values())


def _holds(part: Tensor, pattern: int) -> bool:
    """Tell whether all bytes of CPU memory are the pattern: the first one is, and each one equals the next."""
    start, size = part.data_ptr(), part.numel()
    return size == 0 or (part[0].item() == pattern and memcmp(start, start + 1, size - 1) == 0)


def fill_elements(
    storage: Tensor, shape: Sequence[int], strides: Sequence[int], itemsize: int, value: int, *, offset: int = 0
) -> None:
    """Set every byte of the elements of a view, and no other.

    Args:
        storage: Bytes, uint8, one axis, contiguous from its own storage's start; changed in place.
        shape: Sizes of the view, of at least one element.
        strides: Of the view, in elements.
        itemsize: Bytes of an element.
        value: Byte to write.
        offset: Of the view, in elements.
    """
    axes = _axes(shape, strides)
    sizes = (*(size for size, _ in axes), itemsize)
    steps = (*(stride * itemsize for _, stride in axes), 1)
    if _overlap(axes):
        places = torch.arange(storage.numel(), device=storage.device).as_strided(sizes, steps, offset * itemsize)
        storage[places.flatten()] = value
    else:
        storage.as_strided(sizes, steps, offset * itemsize).fill_(value)


def _axes(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Return (size, stride) of the axes that reach more than one place."""
    return [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1 and stride != 0]


def _overlap(axes: Sequence[tuple[int, int]]) -> bool:
    """Tell whether two elements may share memory."""
    reach = 0
    for size, stride in sorted(axes, key=lambda axis: axis[1]):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
