"""Bytes of tensors, read and written past all checks, as kernels do."""

import ctypes

from torch import Tensor


def bytes_of(tensor: Tensor) -> set[int]:
    """Return the distinct bytes of a tensor's storage."""
    return set(ctypes.string_at(tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()))


def write(tensor: Tensor, offset_bytes: int, count: int) -> None:
    """Change bytes of the memory around a tensor; every one of them is another one then."""
    address = tensor.data_ptr() + offset_bytes
    was = ctypes.string_at(address, count)
    ctypes.memmove(address, bytes(byte ^ 0x81 for byte in was), count)
