"""What is needed of the CUDA driver to launch kernels of our own, past torch and Triton: neither sees them."""

import ctypes
from collections.abc import Sequence
from typing import Any

from pytest_kernelqual.errors import KernelqualError

_LIBRARY = "libcuda.so.1"

# Values of the driver's enums.
MULTIPROCESSORS = 16
SHARED_BYTES_OF_A_BLOCK = 97  # the most that a kernel may opt into
_MOST_DYNAMIC_SHARED_BYTES = 8
_NON_BLOCKING = 1  # a stream that the legacy default stream does not wait for
_DEVICE_MAPPED = 2

_int, _uint, _size, _pointer = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_CALLS: dict[str, tuple[Any, ...]] = {
    "cuCtxGetDevice": (_pointer,),
    "cuDeviceGetAttribute": (_pointer, _int, _int),
    "cuModuleLoadData": (_pointer, ctypes.c_char_p),
    "cuModuleGetFunction": (_pointer, _pointer, ctypes.c_char_p),
    "cuFuncSetAttribute": (_pointer, _int, _int),
    "cuLaunchKernel": (_pointer, *(_uint,) * 7, _pointer, _pointer, _pointer),
    "cuStreamCreate": (_pointer, _uint),
    "cuStreamSynchronize": (_pointer,),
    "cuMemHostAlloc": (_pointer, _size, _uint),
    "cuMemHostGetDevicePointer_v2": (_pointer, _pointer, _uint),
}


class DriverError(KernelqualError):
    """The driver is not there, or refused a call."""


def load() -> Any:
    """Return the driver's library; DriverError where there is none."""
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise DriverError(f"{_LIBRARY} cannot be loaded: {error}") from None


class CudaDriver:
    """Calls of the driver in the context that is current; a refused one is a DriverError."""

    def __init__(self, library: Any) -> None:
        """Keep the library."""
        self._library = library

    def attribute(self, which: int) -> int:
        """Return an attribute of the current device."""
        device, value = _int(), _int()
        self._call("cuCtxGetDevice", ctypes.byref(device))
        self._call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def functions(self, ptx: bytes, shared_bytes: dict[str, int]) -> list[_pointer]:
        """Compile a module and return its kernels by name, each allowed so much dynamic shared memory."""
        module, found = _pointer(), []
        self._call("cuModuleLoadData", ctypes.byref(module), ptx)
        for name, most_bytes in shared_bytes.items():
            function = _pointer()
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode("ascii"))
            self._call("cuFuncSetAttribute", function, _MOST_DYNAMIC_SHARED_BYTES, most_bytes)
            found.append(function)
        return found

    def stream(self) -> _pointer:
        """Return a new stream that no other one waits for."""
        stream = _pointer()
        self._call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        return stream

    def shared_word(self) -> tuple[ctypes.c_uint32, int]:
        """Return a word of host memory that kernels can read, and its address for them."""
        host, address = _pointer(), _pointer()
        self._call("cuMemHostAlloc", ctypes.byref(host), ctypes.sizeof(ctypes.c_uint32), _DEVICE_MAPPED)
        self._call("cuMemHostGetDevicePointer_v2", ctypes.byref(address), host, 0)
        return ctypes.c_uint32.from_address(host.value or 0), address.value or 0

    def launch(
        self,
        function: _pointer,
        arguments: Sequence[Any],
        *,
        blocks: int,
        threads: int,
        shared_bytes: int,
        stream: _pointer,
    ) -> None:
        """Launch a kernel of one dimension; `arguments` are ctypes values."""
        pointers = (_pointer * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        self._call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, pointers, None)

    def synchronize(self, stream: _pointer) -> None:
        """Wait for a stream."""
        self._call("cuStreamSynchronize", stream)

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name)
        function.argtypes, function.restype = _CALLS[name], _int
        status = function(*arguments)
        if status != 0:
            raise DriverError(f"{name} of the CUDA driver returned {status}")
