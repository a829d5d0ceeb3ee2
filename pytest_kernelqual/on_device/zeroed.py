"""Memory that holds zeros and costs nothing until somebody writes it, for launches that never take place."""

import ctypes
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pytest_kernelqual.on_device.guards import no_torch_function

# mallopt(3): what is larger than the greatest dynamic threshold is mapped anew each time, and so is zero.
_LARGEST_REUSED_BYTES = 32 << 20
_OVERRIDDEN = ("empty.memory_format", "empty_strided")
_Library: Any = torch.library.Library  # without types
_originals: dict[str, Any] = {}  # kept after a context closes: a call of another thread may outlive it


def zeros(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, *, name: str = "") -> torch.Tensor:
    """Return a tensor of the CPU; shape and strides in elements."""
    del name
    return _cleared(torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype))


@contextmanager
def zeroed_allocations() -> Iterator[None]:
    """Let uninitialised memory that torch gives on the CPU hold zeros, in all threads and custom operators."""
    library = _Library("aten", "IMPL")
    _originals.update({name: torch.library.get_kernel(f"aten::{name}", "CPU") for name in _OVERRIDDEN})
    try:
        with warnings.catch_warnings():  # torch warns once that an operator is overridden, which is the point
            warnings.filterwarnings("ignore", message="(?s).*[Oo]verrid", category=UserWarning)
            for name, kernel in zip(_OVERRIDDEN, (_empty, _empty_strided), strict=True):
                library.impl(name, kernel, "CPU", with_keyset=True, allow_override=True)
        yield
    finally:
        library._destroy()  # noqa: SLF001 - the only way to take an override back


# Functions of the module: torch keeps the last override alive, and with it what it refers to.
def _empty(keyset: Any, *args: Any, **options: Any) -> torch.Tensor:
    return _cleared(_originals[_OVERRIDDEN[0]].call_boxed(keyset, *args, **options))


def _empty_strided(keyset: Any, *args: Any, **options: Any) -> torch.Tensor:
    return _cleared(_originals[_OVERRIDDEN[1]].call_boxed(keyset, *args, **options))


def _cleared(tensor: torch.Tensor) -> torch.Tensor:
    with no_torch_function():
        storage = tensor.untyped_storage()
        if storage.nbytes() <= _LARGEST_REUSED_BYTES:
            ctypes.memset(storage.data_ptr(), 0, storage.nbytes())
    return tensor
