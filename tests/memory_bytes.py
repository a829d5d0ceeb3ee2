"""Bytes of tensors, read and written past all checks, as kernels do."""

import ctypes

from torch import Tensor


def bytes_of(tensor: Tensor) -> set[int]:
    """Return the distinct bytes of a tensor's storage."""
    return set(ctypes.string_at(tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()))


def write(tensor: Tensor, offset_bytes: int, count: int, value: int = 7) -> None:
    """Write past all checks, as a kernel does."""
    ctypes.memset(tensor.data_ptr() + offset_bytes, value, count)
