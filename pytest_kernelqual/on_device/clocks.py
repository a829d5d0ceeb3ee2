"""Clocks, throttling and other processes of the device, where the driver's library tells."""

import math
import os
import time
from pathlib import Path
from typing import Any

import torch

from pytest_kernelqual.model.messages import Clocks
from pytest_kernelqual.on_device.environment import Device

# Reasons that slow a busy device; idling and the application's own clock settings do not.
_THROTTLING = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}

# A process that matters stays longer than this.
_PROCESSES_KNOWN_S = 0.5
# Listing a device's processes takes from a few to some forty milliseconds: no larger part of the time is spent on it.
_LISTING_PART = 0.02


class ClockReader:
    """Read the state of one device."""

    def __init__(self, device: Device) -> None:
        """Touch nothing yet."""
        self._device = device
        self._look_at_s = -math.inf
        self._foreign = 0

    def read(self) -> Clocks | None:
        """Return the state of an NVIDIA device, or None where it cannot be read."""
        if self._device.kind != "cuda":
            return None
        try:
            import pynvml  # noqa: PLC0415 - optional, extra `nvidia`

            return self._read(pynvml)
        except Exception:  # noqa: BLE001 - no library, no permission, an unknown device: nothing is claimed then
            return None

    def _read(self, nvml: Any) -> Clocks:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(_uuid(self._device))
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        began_s = time.monotonic()
        if began_s > self._look_at_s:
            running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            self._foreign = sum(map(_is_foreign, {process.pid for process in running}))
            ended_s = time.monotonic()
            known_s = max(_PROCESSES_KNOWN_S, (ended_s - began_s) / _LISTING_PART)
            self._look_at_s = ended_s + (known_s if not self._foreign else 0.0)  # it may go at any moment
        return Clocks(
            sm_mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            throttled=[name for bit, name in _THROTTLING.items() if reasons & bit],
            foreign_processes=self._foreign,
        )


def _is_foreign(pid: int) -> bool:
    """Tell whether a process may launch kernels beside ours.

    Device processes of any run wait for the lock while another one times.
    In a container the driver tells pids of another namespace, of which nothing can be said.
    """
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return pid != os.getpid() and bool(command) and b"pytest_kernelqual.on_device" not in command


def _uuid(device: Device) -> str:
    return f"GPU-{torch.cuda.get_device_properties(device.torch_device).uuid}"
