"""Provocation: no launch finds shared memory and registers as it hopes, and some run beside a noise kernel."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pytest_kernelqual.on_device import provoking_ptx
from pytest_kernelqual.on_device.cuda_driver import (
    MULTIPROCESSORS,
    SHARED_BYTES_OF_A_BLOCK,
    CudaDriver,
    DriverError,
    load,
)
from pytest_kernelqual.on_device.environment import Device

DIRTY = "dirty"
NOISE = "noise"

# Longer than it takes to get a launch onto the device; the noise ends with the launch where that is sooner.
LONGEST_NOISE_US = 2000


class Provocation:
    """Provoke launches on an NVIDIA GPU; elsewhere, or where it is switched off, do nothing.

    What goes wrong here is no fault of the kernel under test: it switches provocation off and `told` says so.
    """

    def __init__(self, device: Device, *, wanted: bool, library: Callable[[], Any] = load) -> None:
        """Prepare; the device is not touched before the first launch.

        Args:
            device: What kernels run on.
            wanted: False to do nothing.
            library: Returns the library of the CUDA driver.
        """
        self._device = device
        self._library = library
        self._kernels: _Kernels | None = None
        self._off = ""
        if not wanted:
            self._off = "off"
        elif device.kind != "cuda":
            self._off = "" if device.interpreted else f"off: not made for {device.kind}"
        self._tried = not wanted or device.kind != "cuda"

    @property
    def told(self) -> str:
        """Say what is done to launches, or why nothing is; empty under the interpreter. Touches the device."""
        kernels = self._ready()
        return kernels.told if kernels is not None else self._off

    @contextmanager
    def around(self, pattern: int, *, noise: bool = False) -> Iterator[list[str]]:
        """Provoke the launch inside the block, and yield what was done: `dirty`, `noise`, both or nothing.

        The noise has ended when the block has, and what the launch put on the current stream with it.

        Args:
            pattern: Byte that shared memory and registers are left full of.
            noise: Keep a part of the device busy meanwhile.
        """
        done: list[str] = []
        if self._succeeds(lambda kernels: kernels.dirty(pattern, self._stream())):
            done.append(DIRTY)
        if noise and self._succeeds(_Kernels.start_noise):
            done.append(NOISE)
        try:
            yield done
            if NOISE in done:
                torch.cuda.current_stream(self._device.torch_device).synchronize()
        finally:
            if NOISE in done:
                self._succeeds(_Kernels.end_noise)

    def _stream(self) -> ctypes.c_void_p:
        """Return torch's current stream, on which a launch begins."""
        return ctypes.c_void_p(torch.cuda.current_stream(self._device.torch_device).cuda_stream)

    def _ready(self) -> "_Kernels | None":
        if not self._tried:
            self._tried = True
            self._attempt(self._make)
        return self._kernels

    def _make(self) -> None:
        torch.cuda.synchronize(self._device.torch_device)  # makes its context current
        self._kernels = _Kernels(CudaDriver(self._library()))

    def _succeeds(self, act: "Callable[[_Kernels], None]") -> bool:
        kernels = self._ready()
        return kernels is not None and self._attempt(lambda: act(kernels))

    def _attempt(self, act: Callable[[], None]) -> bool:
        """Tell whether it could be done; where it could not, nothing more is tried in this process."""
        try:
            with torch.cuda.device(self._device.torch_device):
                act()
        except (DriverError, AttributeError) as error:  # AttributeError: a driver that lacks a function
            self._kernels, self._off = None, f"off: {error}"
            return False
        return True


class _Kernels:
    """The two kernels on one device."""

    def __init__(self, driver: CudaDriver) -> None:
        self._driver = driver
        self._multiprocessors = driver.attribute(MULTIPROCESSORS)
        self._shared_bytes = driver.attribute(SHARED_BYTES_OF_A_BLOCK)
        # Half of a multiprocessor: the blocks of most kernels still fit beside it, and fewer of them.
        self._noise_bytes = self._shared_bytes // 2 & ~1023
        self._dirty, self._noise = driver.functions(
            provoking_ptx.source(),
            {provoking_ptx.DIRTY: self._shared_bytes, provoking_ptx.NOISE: self._noise_bytes},
        )
        self._side_stream = driver.stream()
        self._stop, self._stop_address = driver.shared_word()
        self.told = (
            f"{self._shared_bytes // 1024} KiB of shared memory and registers dirtied on "
            f"{self._multiprocessors} multiprocessors, noise of up to {LONGEST_NOISE_US} us"
        )

    def dirty(self, pattern: int, stream: ctypes.c_void_p) -> None:
        """Leave the byte in shared memory and registers of every multiprocessor."""
        word = int.from_bytes(bytes([pattern] * 4), "little")
        self._driver.launch(
            self._dirty,
            [ctypes.c_uint32(word), ctypes.c_uint32(self._shared_bytes), ctypes.c_uint64(0)],
            blocks=2 * self._multiprocessors,  # one at a time fits on each: none is left out if some end early
            threads=provoking_ptx.DIRTY_THREADS,
            shared_bytes=self._shared_bytes,
            stream=stream,
        )

    def start_noise(self) -> None:
        """Occupy a part of every other multiprocessor."""
        self._stop.value = 0
        self._driver.launch(
            self._noise,
            [ctypes.c_uint64(self._stop_address), ctypes.c_uint64(LONGEST_NOISE_US * 1000)],
            blocks=max(self._multiprocessors // 2, 1),
            threads=provoking_ptx.NOISE_THREADS,
            shared_bytes=self._noise_bytes,
            stream=self._side_stream,
        )

    def end_noise(self) -> None:
        """End the noise and wait for its end."""
        self._stop.value = 1
        self._driver.synchronize(self._side_stream)
