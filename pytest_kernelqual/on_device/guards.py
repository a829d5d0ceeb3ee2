"""Guard bands: the layout of a guarded buffer, and the check of its guards.

A buffer is the middle of a larger block. The tensor's storage covers the middle alone, as in production (offset 0,
exact size), so that neither `resize_` nor a view can reach the guards; only a stray write does.

Guards hold noise, another for each poison pattern and buffer. A constant would not do: what a launch without a mask
reads from one guard it writes to another, and NaN + 1, relu(NaN) or 1e16 + 1 are the bytes that were there before.
"""

import ctypes
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

_ALIGNMENT_BYTES = 512  # of CUDA's caching allocator; the CPU's is 64
_LEAST_GUARD_BYTES = 16 << 10  # a tile of 64 rows of 256 bytes; between least and most, a quarter of the buffer
_MOST_GUARD_BYTES = 256 << 10
_NOISE_SHIFT_BYTES, _NOISE_SHIFTS = 72, 1021  # apart at any width of element, for as many buffers at once

below_autograd: Any = torch._C._AutoDispatchBelowADInplaceOrView  # noqa: SLF001 - what torch.library's own kernels use
no_torch_function: Any = torch._C.DisableTorchFunction  # noqa: SLF001 - hides our operations from the user's modes
# Exporting a slice and importing it again gives it a storage of its own that keeps the whole block alive.
_to_dlpack: Callable[[Tensor], Any] = torch._C._to_dlpack  # noqa: SLF001 - without the negotiation of streams
_from_dlpack: Callable[[Any], Tensor] = torch._C._from_dlpack  # noqa: SLF001 - the same
_use_count: Callable[[int], int] = torch._C._storage_Use_Count  # noqa: SLF001 - tells whether any tensor still lives
memcmp = ctypes.CDLL(None).memcmp
memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_DEAD_USE_COUNT = 2  # the block's own tensor and the Python object made for asking


def on_host(tensor: Tensor) -> bool:
    """Tell whether a tensor lies in memory that the host reads and writes itself."""
    return tensor.is_cpu


class _ThreadState(threading.local):
    plain = False


this_thread = _ThreadState()


@contextmanager
def plain_allocations() -> Iterator[None]:
    """Let allocations of this thread be torch's own, in poisoned memory too."""
    before, this_thread.plain = this_thread.plain, True
    try:
        yield
    finally:
        this_thread.plain = before


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
        return self.guard_bytes + self.size_bytes + self.guard_bytes


class Buffer(NamedTuple):
    """A block, what lies in it, and the poison that its noise and gaps belong to."""

    block: Tensor
    layout: Layout
    pattern: int
    number: int
    """Chooses the noise of its guards."""
    name: str
    elements: Tensor | None
    """Which bytes of the buffer are of elements; None where all are."""

    @classmethod
    def of(cls, block: Tensor, layout: Layout, pattern: int, number: int, name: str) -> "Buffer":
        """Describe a block; it is filled by `tensor`."""
        elements = None
        if layout.has_gaps:
            with plain_allocations():
                elements = torch.zeros(layout.size_bytes, dtype=torch.uint8, device=block.device)
                fill_elements(elements, layout.shape, layout.strides, layout.dtype.itemsize, 1)
                elements = elements.view(torch.bool)
        return cls(block, layout, pattern, number, name, elements)

    def tensor(self) -> Tensor:
        """Fill the block with poison and noise, and return the tensor in its middle, which keeps the block alive."""
        shape, strides, dtype, size_bytes, guard_bytes, _ = self.layout
        with below_autograd(), no_torch_function():
            if on_host(self.block):  # not fill_: waking torch's threads costs more than the work
                ctypes.memset(self.block.data_ptr() + guard_bytes, self.pattern, size_bytes)
            else:
                self.block.fill_(self.pattern)
            self.write_noise()
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

    def middle(self) -> Tensor:
        """Return the bytes from the first element to the end of the last."""
        return self.block[self.layout.guard_bytes : self.layout.guard_bytes + self.layout.size_bytes]

    def guards(self) -> tuple[Tensor, Tensor]:
        """Return the bytes before and those after the buffer."""
        guard_bytes, size_bytes = self.layout.guard_bytes, self.layout.size_bytes
        return self.block[:guard_bytes], self.block[guard_bytes + size_bytes :]

    def noise(self) -> tuple[Tensor, Tensor]:
        """Return what the guards must hold."""
        return _noise_at(self.block.device, self.pattern, self.number, self.layout.guard_bytes)

    def gaps(self) -> Tensor | None:
        """Return a copy of the buffer with the pattern in the elements, so that nothing else may be in it."""
        return None if self.elements is None else self.middle().masked_fill(self.elements, self.pattern)

    def repaired(self) -> Iterator[Damage]:
        """Yield the damage of the buffer and undo it."""
        guards, noise, size_bytes = self.guards(), self.noise(), self.layout.size_bytes
        before, after = (bytes_.ne(known).nonzero().flatten() for bytes_, known in zip(guards, noise, strict=True))
        if before.numel():
            yield Damage(self.label(), "before", int(before[-1].item()) - self.layout.guard_bytes, before.numel())
        if after.numel():
            yield Damage(self.label(), "after", int(after[0].item()) + size_bytes, after.numel())
        self.write_noise()
        gaps = self.gaps()
        if gaps is not None:
            places = gaps.ne(self.pattern).nonzero().flatten()
            if places.numel():
                yield Damage(self.label(), "gap", int(places[0].item()), places.numel())
                self.middle()[places] = self.pattern

    def write_noise(self) -> None:
        """Fill the guards."""
        if not on_host(self.block):
            torch._foreach_copy_(self.guards(), self.noise())
            return
        guard_bytes, start = self.layout.guard_bytes, self.block.data_ptr()
        noise = _noise(self.block.device, self.pattern).data_ptr() + self.number % _NOISE_SHIFTS * _NOISE_SHIFT_BYTES
        ctypes.memmove(start, noise, guard_bytes)
        ctypes.memmove(start + guard_bytes + self.layout.size_bytes, noise + guard_bytes, guard_bytes)


@lru_cache(maxsize=16)
def _noise(device: torch.device, pattern: int) -> Tensor:
    """Return the same random bytes in every process, without a draw from the user's generators."""
    size_bytes = 2 * _MOST_GUARD_BYTES + _NOISE_SHIFTS * _NOISE_SHIFT_BYTES
    generator = torch.Generator().manual_seed(pattern)
    with plain_allocations():
        noise = torch.randint(0, 0x100, (size_bytes,), dtype=torch.uint8, generator=generator, device="cpu")
        return noise.to(device)


def damaged(buffers: list[Buffer]) -> list[Damage]:
    """Return the damage of buffers and undo it; waits once for each device where there is none."""
    return [] if _intact(buffers) else [damage for buffer in buffers for damage in buffer.repaired()]


def under(buffers: Sequence[Buffer], pattern: int) -> list[Buffer]:
    """Fill guards and gaps anew, for a launch under another poison, and leave the elements as they are."""
    found = [buffer._replace(pattern=pattern) for buffer in buffers]
    others = [new for old, new in zip(buffers, found, strict=True) if old.pattern != pattern]
    of_devices = [buffer for buffer in others if not on_host(buffer.block)]
    if of_devices:  # all at once: on a device each operation is a launch
        guards, noise = ([part for of in of_devices for part in ends(of)] for ends in (Buffer.guards, Buffer.noise))
        torch._foreach_copy_(guards, noise)
    for buffer in others:
        if on_host(buffer.block):
            buffer.write_noise()
    for buffer in found:
        if buffer.elements is not None:  # always: whoever restores elements may restore gaps with them
            buffer.middle().masked_fill_(~buffer.elements, pattern)
    return found


def _intact(buffers: Sequence[Buffer]) -> bool:
    of_device: dict[torch.device, list[Buffer]] = {}
    flags: dict[torch.device, list[Tensor]] = {}
    for buffer in buffers:
        gaps = buffer.gaps()
        if not on_host(buffer.block):
            of_device.setdefault(buffer.block.device, []).append(buffer)
        elif not all(map(_equal, buffer.guards(), buffer.noise())):
            return False
        if gaps is not None:
            least, most = torch.aminmax(gaps)
            flags.setdefault(gaps.device, []).append((least != buffer.pattern) | (most != buffer.pattern))
    for device, several in of_device.items():
        flags.setdefault(device, []).append(_any_differs(several))
    return not any(any_of(several) for several in flags.values())


def _any_differs(buffers: Sequence[Buffer]) -> Tensor:
    """Tell of the guards of buffers on one device, unwaited, in as few operations as can be: each is a launch there."""
    guards = torch.cat([part for buffer in buffers for part in buffer.guards()])
    known = tuple((buffer.pattern, buffer.number, buffer.layout.guard_bytes) for buffer in buffers)
    return guards.view(torch.int64).ne(_noise_of(buffers[0].block.device, known)).any()


def any_of(flags: Sequence[Tensor]) -> bool:
    """Wait for flags of one device, and tell whether any is set."""
    return bool((flags[0] if len(flags) == 1 else torch.stack(list(flags)).any()).item())


@lru_cache(maxsize=16)
def _noise_of(device: torch.device, known: tuple[tuple[int, int, int], ...]) -> Tensor:
    """Return what the guards of several buffers must hold, in a row, eight bytes at a time.

    Every launch of a config finds the same.
    """
    with plain_allocations():
        return torch.cat([part for of in known for part in _noise_at(device, *of)]).view(torch.int64)


def _noise_at(device: torch.device, pattern: int, number: int, guard_bytes: int) -> tuple[Tensor, Tensor]:
    start = number % _NOISE_SHIFTS * _NOISE_SHIFT_BYTES
    noise = _noise(device, pattern)[start : start + 2 * guard_bytes]
    return noise[:guard_bytes], noise[guard_bytes:]


def _equal(left: Tensor, right: Tensor) -> bool:
    return bool(memcmp(left.data_ptr(), right.data_ptr(), left.numel()) == 0)


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
