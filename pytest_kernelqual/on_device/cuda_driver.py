"""What is needed of the CUDA driver to launch kernels of our own, past torch and Triton: neither sees them."""

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

from pytest_kernelqual.errors import KernelqualError

_LIBRARY = "libcuda.so.1"

# Values of the driver's enums.
MULTIPROCESSORS = 16
SHARED_BYTES_OF_A_BLOCK = 97  # the most that a kernel may opt into
_MOST_DYNAMIC_SHARED_BYTES = 8
_NON_BLOCKING = 1  # a stream that the legacy default stream does not wait for
_DEVICE_MAPPED = 2

Pointer: TypeAlias = ctypes.c_void_p
_int, _uint, _size = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_CALLS: dict[str, tuple[Any, ...]] = {
    "cuCtxGetDevice": (Pointer,),
    "cuDeviceGetAttribute": (Pointer, _int, _int),
    "cuModuleLoadData": (Pointer, ctypes.c_char_p),
    "cuModuleGetFunction": (Pointer, Pointer, ctypes.c_char_p),
    "cuFuncSetAttribute": (Pointer, _int, _int),
    "cuLaunchKernel": (Pointer, *(_uint,) * 7, Pointer, Pointer, Pointer),
    "cuStreamCreate": (Pointer, _uint),
    "cuStreamSynchronize": (Pointer,),
    "cuMemHostAlloc": (Pointer, _size, _uint),
    "cuMemHostGetDevicePointer_v2": (Pointer, Pointer, _uint),
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

    def functions(self, ptx: bytes, shared_bytes: dict[str, int]) -> list[Pointer]:
        """Compile a module and return its kernels by name, each allowed so much dynamic shared memory."""
        module, found = Pointer(), []
        self._call("cuModuleLoadData", ctypes.byref(module), ptx)
        for name, most_bytes in shared_bytes.items():
            function = Pointer()
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode("ascii"))
            self._call("cuFuncSetAttribute", function, _MOST_DYNAMIC_SHARED_BYTES, most_bytes)
            found.append(function)
        return found

    def stream(self) -> Pointer:
        """Return a new stream that no other one waits for."""
        stream = Pointer()
        self._call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        return stream

    def shared_word(self) -> tuple[ctypes.c_uint32, int]:
        """Return a word of host memory that kernels can read, and its address for them."""
        host, address = Pointer(), Pointer()
        self._call("cuMemHostAlloc", ctypes.byref(host), ctypes.sizeof(ctypes.c_uint32), _DEVICE_MAPPED)
        self._call("cuMemHostGetDevicePointer_v2", ctypes.byref(address), host, 0)
        return ctypes.c_uint32.from_address(host.value or 0), address.value or 0

    def launch(
        self,
        function: Pointer,
        arguments: Sequence[Any],
        *,
        blocks: int,
        threads: int,
        shared_bytes: int,
        stream: Pointer,
    ) -> None:
        """Launch a kernel of one dimension; `arguments` are ctypes values."""
        pointers = (Pointer * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        self._call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, pointers, None)

    def synchronize(self, stream: Pointer) -> None:
        """Wait for a stream."""
        self._call("cuStreamSynchronize", stream)

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name)
        function.argtypes, function.restype = _CALLS[name], _int
        status = function(*arguments)
        if status != 0:
            raise DriverError(f"{name} of the CUDA driver returned {status}")
