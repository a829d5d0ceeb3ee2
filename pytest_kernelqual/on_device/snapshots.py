"""Memory of inputs: filled by parts, kept as bytes, compared with what was kept, and put back."""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.on_device import digests, element_types, guards

# Returns the values (one axis) of `count` elements, in row-major order, from element `start` on.
Draw = Callable[[int, int], torch.Tensor]

# Elements drawn at a time. On a CPU the most that torch works on in one thread: temporaries stay within the cache, and
# workers that share its cores do not wait for each other's threads. On a device temporaries are 64 MiB each.
_CHUNK = {"cpu": 1 << 15}
_DEVICE_CHUNK = 1 << 24


@dataclass(eq=False, slots=True)
class InputTensor:
    """Hold one input; `pristine` is a copy of it, of the same shape and strides, as it was when it was frozen."""

    name: str
    tensor: torch.Tensor
    pristine: torch.Tensor
    alias: torch.Tensor
    """The same memory with the metadata as frozen, out of autograd's sight."""
    requires_grad: bool

    def repair(self) -> None:
        """Give the tensor back its memory, shape, strides, dtype and place in autograd, and no gradient."""
        tensor = self.tensor
        tensor.grad = None
        if not tensor.is_leaf:
            self._cut_off()
        if not self.same_place():
            tensor.data = self.alias
        if tensor.requires_grad != self.requires_grad:
            tensor.requires_grad_(self.requires_grad)

    def same_place(self) -> bool:
        """Tell whether the tensor lies as it did when it was frozen."""
        return _place(self.tensor) == _place(self.alias)

    def _cut_off(self) -> None:
        """Undo a write in place that autograd followed."""
        try:
            self.tensor.detach_()
        except RuntimeError:
            raise InputError(
                f"the launch wrote a result that autograd follows into input {self.name!r}, a view of another tensor; "
                "adopt its .clone() instead"
            ) from None

    def differs(self) -> bool | torch.Tensor:
        """Tell whether addressable bytes, dtype or shape differ from pristine; off the CPU as a tensor, unwaited."""
        now = self.tensor.detach()
        if (now.shape, now.dtype, now.device) != (self.pristine.shape, self.pristine.dtype, self.pristine.device):
            return True
        if self.same_place() and _same_bytes(now, self.pristine):
            return False
        bits, pristine = element_types.as_bits(now), element_types.as_bits(self.pristine)
        return not torch.equal(bits, pristine) if bits.device.type == "cpu" else bits.ne(pristine).any()


@dataclass(eq=False, slots=True)
class Memory:
    """Hold the bytes of one storage, whichever inputs share it."""

    name: str
    storage: torch.UntypedStorage
    address: int
    live: torch.Tensor
    pristine: torch.Tensor
    whole: bool = False
    """One input addresses all of its bytes."""

    def put_back(self, *, unchanged: bool = False) -> None:
        """Give the storage the bytes that it was frozen with, if only those without an input where that is enough."""
        if unchanged and self.whole:
            return
        # Through bytes of their own version counter: autograd sees no change of what a graph has saved.
        if self.live.device.type == "cpu":  # a plain copy: torch would wake all its threads for it
            ctypes.memmove(self.live.data_ptr(), self.pristine.data_ptr(), self.pristine.numel())
        else:
            self.live.copy_(self.pristine)

    def must_stay(self) -> None:
        """Raise InputError where the storage is not where and as large as it was."""
        size = self.pristine.numel()
        if (self.storage.data_ptr(), self.storage.nbytes()) != (self.address, size):
            raise InputError(
                f"the launch resized the memory of input {self.name!r}: {self.storage.nbytes()} bytes, frozen with "
                f"{size} (or moved); a launch may change values, not memory"
            )


def _same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether contiguous CPU tensors of one form have the same bytes, eight times faster than torch does."""
    if one.device.type != "cpu" or not (one.is_contiguous() and other.is_contiguous()):
        return False
    return bool(guards.memcmp(one.data_ptr(), other.data_ptr(), one.numel() * one.element_size()) == 0)


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def placed(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """Return a tensor of `storage` with the metadata of `like` that is no view of another tensor."""
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    with torch.no_grad():
        return empty.set_(storage, like.storage_offset(), like.shape, like.stride())


def fill(tensor: torch.Tensor, draw: Draw) -> None:
    """Write drawn values; the value at an index does not depend on strides."""
    target = element_types.as_bits(tensor) if element_types.is_integer(tensor.dtype) else tensor
    with torch.no_grad():
        for slab, start in slabs(target, 0):
            values = draw(start, slab.numel())
            if slab.dtype.itemsize == 1 and slab.dtype.is_floating_point:
                values = values.to(torch.float32)  # the one way to 8 bits that every device rounds alike
            slab.copy_(values.view(slab.shape))


def slabs(tensor: torch.Tensor, start: int) -> Iterator[tuple[torch.Tensor, int]]:
    """Yield (part, row-major index of its first element) of parts that bound what is drawn or copied at a time."""
    limit = _CHUNK.get(tensor.device.type, _DEVICE_CHUNK)
    if tensor.is_contiguous():
        for at in range(0, tensor.numel(), limit):
            yield tensor.view(-1)[at : at + limit], start + at
        return
    row = tensor.numel() // tensor.shape[0]
    if row > limit:
        for at in range(tensor.shape[0]):
            yield from slabs(tensor[at], start + at * row)
        return
    rows = limit // row
    for at in range(0, tensor.shape[0], rows):
        yield tensor[at : at + rows], start + at * row


def digest(tensor: torch.Tensor) -> str:
    """Return "sha256:..." of the addressable bytes in row-major order."""
    flat = element_types.as_bits(tensor).contiguous().reshape(-1)
    return digests.digest(flat.view(torch.uint8) if flat.numel() else flat.new_empty(0, dtype=torch.uint8))


def storage_id(tensor: torch.Tensor) -> int:
    """Return what tensors of one storage have in common; 0, which none has, for a tensor without a storage."""
    try:
        return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - addresses of empty storages are all 0
    except (NotImplementedError, RuntimeError):
        return 0
