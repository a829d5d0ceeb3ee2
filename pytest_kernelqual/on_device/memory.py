"""Memory for inputs and launches: guarded on both sides, and full of a known pattern until somebody writes it."""

import gc
import math
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor

from pytest_kernelqual.errors import InputError, KernelqualError
from pytest_kernelqual.on_device.guards import (
    Buffer,
    Damage,
    Layout,
    below_autograd,
    damaged,
    no_torch_function,
    plain_allocations,
    this_thread,
    under,
)

__all__ = ["PATTERN_A", "PATTERN_B", "Damage", "Memory", "plain_allocations"]

PATTERN_A = 0xFF
"""NaN in IEEE floats and most fp8 formats, -1 as an integer: it spreads through arithmetic and comparisons."""
PATTERN_B = 0x5A
"""Large and positive, yet its square is finite in every float format: a launch that overflows to NaN under both
patterns would hide what it read, and a maximum that ignores NaN shows it. Differs from A in the lowest bit."""

_DISPATCH_KEYS = {"cpu": "CPU", "cuda": "CUDA"}
_QUANTISED = frozenset(  # torch is about to drop them
    getattr(torch, name, None) for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")
) - {None}
_Library: Any = torch.library.Library  # without types
# CPU memory kept from launch to launch: fresh pages cost more than all the rest of an allocation.
_MOST_SPARE_BYTES = 64 << 20
_LARGEST_BYTES = 1 << 60  # more, and torch words the error best
_OVERRIDDEN = ("empty.memory_format", "empty_strided", "resize_")


_lock = threading.RLock()
_originals: dict[str, Any] = {}  # kept after a context closes: a call of another thread may outlive it
_poisoning: "Memory | None" = None  # whose context is open; the dispatcher holds one override of an operator at a time


class Memory:
    """Make guarded buffers on one kind of device and tell which guards a launch has damaged."""

    def __init__(
        self, device: torch.device, *, dead_limit_bytes: int | None = None, survivors: Sequence[Buffer] = ()
    ) -> None:
        """Prepare for a device.

        Args:
            device: CPU or CUDA (HIP is torch's CUDA); InputError for any other.
            survivors: Allocations of earlier launches that another memory has watched so far.
            dead_limit_bytes: How much memory that a launch has freed is kept for the check of its guards; beyond that
                it is checked at once, with a synchronisation, and let go. Default: a quarter of the device's memory.
        """
        if device.type not in _DISPATCH_KEYS:
            raise InputError(f"device {device} has no guarded memory; use one of: {', '.join(_DISPATCH_KEYS)}")
        self._device = device
        self._limit_bytes = _memory_bytes(device) // 4 if dead_limit_bytes is None else dead_limit_bytes
        self._inputs: list[Buffer] = []
        self._allocations: list[Buffer] = list(survivors)
        self._found: list[Damage] = []
        self._spare: dict[int, list[Tensor]] = {}
        self._spare_bytes = 0
        self._held_bytes = 0
        self._check_at_bytes = self._limit_bytes
        self._made = 0
        self._pattern = PATTERN_A

    def allocate(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        dtype: torch.dtype,
        *,
        pattern: int = PATTERN_A,
        name: str = "",
    ) -> Tensor:
        """Return a guarded tensor for an input, filled with the pattern and watched until `forget_inputs`.

        Args:
            shape: Sizes; a tensor without elements has no guards.
            strides: In elements; gaps between elements are guard too.
            dtype: Of the elements.
            pattern: Byte of the gaps and elements.
            name: What damage calls it, after `input`.
        """
        shape, strides = tuple(shape), tuple(strides)
        with plain_allocations():
            if 0 in shape:
                return torch.empty_strided(shape, strides, dtype=dtype, device=self._device)
            layout = Layout.of(shape, strides, dtype)
            block = torch.empty(layout.block_bytes, dtype=torch.uint8, device=self._device)
            label = f"input {name}" if name else "an input"
            buffer = Buffer.of(block, layout, pattern, len(self._inputs), label)
            self._inputs.append(buffer)
            return buffer.tensor()

    def forget_inputs(self) -> None:
        """Stop watching the inputs; tensors that live on keep their memory."""
        self._inputs.clear()

    def survivors(self) -> list[Buffer]:
        """Return the allocations of launches that are still in use, such as cached workspaces."""
        with _lock:
            if any(not buffer.is_dead() for buffer in self._allocations):
                gc.collect()  # what only a cycle keeps, such as the frames of an exception, is in nobody's use
            return [buffer for buffer in self._allocations if not buffer.is_dead()]

    def begin_launch(self) -> None:
        """Forget what earlier launches freed; what still lives, such as a cached workspace, stays watched."""
        with _lock:
            self._release([buffer for buffer in self._allocations if buffer.is_dead()])
            self._found.clear()
            self._made = 0

    @contextmanager
    def poisoned(self, pattern: int, *, inputs: bool = True) -> Iterator[None]:
        """Give every uninitialised allocation on this kind of device, in all threads, guards and the pattern.

        Guards and gaps of the `inputs` are filled anew, so that a launch that reads them gives other bytes under
        another pattern. Pinned, quantised and empty tensors are left alone. A failure to allocate is torch's own.
        """
        global _poisoning  # noqa: PLW0603 - an operator's kernel is process-wide as well
        if pattern not in range(0x100):
            raise InputError(f"pattern {pattern} is not a byte; use 0 to 255")
        if inputs:
            with plain_allocations(), below_autograd():
                self._inputs = under(self._inputs, pattern)
        library = _Library("aten", "IMPL")
        with _lock:
            if _poisoning is not None:
                raise KernelqualError("poisoned memory is open already; close it before opening it again")
            key = _DISPATCH_KEYS[self._device.type]
            _originals.update({name: torch.library.get_kernel(f"aten::{name}", key) for name in _OVERRIDDEN})
            self._pattern = pattern
            _poisoning = self
        try:
            _override(library, key)
            with _compiled_code_poisoned(self._device.type):
                yield
        finally:
            library._destroy()  # noqa: SLF001 - the only way to take an override back
            _poisoning = None

    def damage(self) -> list[Damage]:
        """Return the changed guard and gap bytes of inputs and of the last launch's allocations, and repair them.

        Synchronises with the device once when nothing is damaged. Work on other streams must have been joined.
        Buffers that the launch has freed are let go.
        """
        with _lock, plain_allocations(), below_autograd():
            found = [*self._found, *damaged([*self._inputs, *self._allocations])]
            self._release([buffer for buffer in self._allocations if buffer.is_dead()])
            self._found.clear()
            return found

    def launch_tensor(self, keyset: Any, device: torch.device | None, layout: Layout) -> Tensor:
        """Return a poisoned tensor for the open launch: one allocation by torch's own kernel, filled once."""
        block = self._spare_block(layout.block_bytes)
        if block is None:
            allocate = _originals["empty.memory_format"].call_boxed
            try:
                block = allocate(keyset, [layout.block_bytes], dtype=torch.uint8, device=device)
            except RuntimeError:  # out of memory, perhaps for what production would have freed by now
                if not self._check_dead():
                    raise
                block = allocate(keyset, [layout.block_bytes], dtype=torch.uint8, device=device)
        with _lock:
            self._made += 1
            number = len(self._inputs) + self._made  # the same in each launch, and with it the noise
            buffer = Buffer.of(block, layout, self._pattern, number, f"allocation {self._made}")
            tensor = buffer.tensor()
            self._allocations.append(buffer)
            self._held_bytes += layout.block_bytes
            if self._held_bytes > self._check_at_bytes:
                self._check_dead()
        return tensor

    def _check_dead(self) -> bool:
        """Check and let go what the launch has freed; tell whether that was anything."""
        if self._device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False  # a synchronisation would break the capture
        with _lock, plain_allocations(), below_autograd():
            dead = [buffer for buffer in self._allocations if buffer.is_dead()]
            self._found += damaged(dead)
            self._release(dead)
            return bool(dead)

    def _release(self, buffers: list[Buffer]) -> None:
        gone = {id(buffer) for buffer in buffers}
        self._allocations = [buffer for buffer in self._allocations if id(buffer) not in gone]
        self._held_bytes = sum(buffer.block.numel() for buffer in self._allocations)
        self._check_at_bytes = self._held_bytes + self._limit_bytes
        for block in (buffer.block for buffer in buffers):
            if block.is_cpu and self._spare_bytes + block.numel() <= _MOST_SPARE_BYTES:
                self._spare.setdefault(block.numel(), []).append(block)
                self._spare_bytes += block.numel()

    def _spare_block(self, block_bytes: int) -> Tensor | None:
        """Return a block that an earlier launch is done with, if there is one of that size."""
        with _lock:
            blocks = self._spare.get(block_bytes)
            if not blocks:
                return None
            self._spare_bytes -= block_bytes
            return blocks.pop()


def _override(library: Any, key: str) -> None:
    with warnings.catch_warnings():  # torch warns once per process that an operator is overridden, which is the point
        warnings.filterwarnings("ignore", message="(?s).*[Oo]verrid", category=UserWarning)
        for name, kernel in zip(_OVERRIDDEN, (_empty, _empty_strided, _resize), strict=True):
            library.impl(name, kernel, key, with_keyset=True, allow_override=True)


# The overrides are functions of the module: torch keeps the last one registered alive, and with it what it refers to.
def _empty(keyset: Any, size: list[int], **options: Any) -> Tensor:
    return _allocated("empty.memory_format", keyset, (size,), _strides(size, options.get("memory_format")), options)


def _empty_strided(keyset: Any, size: list[int], stride: list[int], **options: Any) -> Tensor:
    strides = tuple(stride) if len(stride) == len(size) and min(stride, default=0) >= 0 else None
    return _allocated("empty_strided", keyset, (size, stride), strides, options)


def _resize(keyset: Any, tensor: Tensor, size: list[int], **options: Any) -> Tensor:
    """Do for a guarded storage, which torch cannot resize, what torch does for its own."""
    memory = None if this_thread.plain else _poisoning
    with below_autograd(), no_torch_function():
        storage = tensor.untyped_storage()
        needed_bytes = (int(tensor.storage_offset()) + math.prod(size)) * tensor.itemsize
        if memory is not None and not storage.resizable() and needed_bytes > storage.nbytes():
            larger = memory.launch_tensor(
                keyset, tensor.device, Layout.of([needed_bytes], [1], torch.uint8, dense=True)
            )
            larger.untyped_storage()[: storage.nbytes()].copy_(storage)
            tensor.set_(larger.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    _originals["resize_"].call_boxed(keyset, tensor, size, **options)
    return tensor


def _allocated(
    name: str, keyset: Any, args: tuple[list[int], ...], strides: tuple[int, ...] | None, options: dict[str, Any]
) -> Tensor:
    """Return a poisoned tensor, or what torch's own kernel makes of what is not ours to poison."""
    memory, size = _poisoning, args[0]
    if not (
        memory is None
        or strides is None  # an error that torch words best
        or min(size, default=1) <= 0  # nothing to guard, or an error
        or this_thread.plain
        or options.get("pin_memory")
        or options.get("layout") not in (None, torch.strided)
        or options.get("dtype") in _QUANTISED
    ):
        layout = Layout.of(size, strides, options.get("dtype") or torch.get_default_dtype(), dense=len(args) == 1)
        if layout.size_bytes <= _LARGEST_BYTES:
            return memory.launch_tensor(keyset, options.get("device"), layout)
    return cast("Tensor", _originals[name].call_boxed(keyset, *args, **options))


def _strides(size: list[int], memory_format: torch.memory_format | None) -> tuple[int, ...] | None:
    """Return the strides that torch gives; None for what it refuses."""
    order = list(range(len(size)))
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        if len(size) != (4 if memory_format == torch.channels_last else 5):
            return None
        order = [0, *order[2:], 1]
    elif memory_format not in (None, torch.contiguous_format):
        return None
    strides, step = [0] * len(size), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= size[axis]
    return tuple(strides)


@contextmanager
def _compiled_code_poisoned(device_type: str) -> Iterator[None]:
    """Send the allocations of torch.compile's code, which go past the dispatcher, through it."""
    guards: Any = torch._C._dynamo.guards  # noqa: SLF001 - where that code takes its allocator from
    name = f"empty_strided_{device_type}"
    original = getattr(guards, f"_{name}", None)

    def through_dispatcher(size: Any, stride: Any, dtype: torch.dtype) -> Tensor:
        return torch.empty_strided(size, stride, dtype=dtype, device=device_type)

    _replace_allocator(guards, name, original, through_dispatcher)
    try:
        yield
    finally:
        _replace_allocator(guards, name, through_dispatcher, original)


def _replace_allocator(guards: Any, name: str, old: Any, new: Any) -> None:
    if old is None or new is None:
        return
    setattr(guards, f"_{name}", new)
    compiled = sys.modules.get("torch._inductor.codecache")
    for module in compiled.PyCodeCache.modules if compiled is not None else ():
        if getattr(module, name, None) is old:
            setattr(module, name, new)


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)  # asking the driver takes far longer
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
