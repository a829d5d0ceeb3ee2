"""Clocks, throttling and other processes of the device, as far as the driver's library tells."""

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from pytest_kernelqual.model.clocks import Clocks
from pytest_kernelqual.on_device.environment import Device

# Reasons that slow a busy device; idling and the application's own clock settings do not.
_THROTTLING = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
# What AMD's driver counts while something slows the device.
# Its `indep_throttle_status` is no use: of some devices it is never set, of others always.
_RESIDENCIES = {
    "ppt_residency_acc": "power cap",
    "prochot_residency_acc": "processor hot",
    "socket_thm_residency_acc": "socket thermal",
    "vr_thm_residency_acc": "voltage regulator thermal",
    "hbm_thm_residency_acc": "memory thermal",
}

_PARTS = ("clock", "throttling", "processes")

# A process that matters stays longer than this.
_PROCESSES_KNOWN_S = 0.5
# Listing a device's processes takes from a few to some forty milliseconds: no larger part of the time is spent on it.
_LISTING_PART = 0.02


class Library(Protocol):
    """The library of one vendor's driver, about one device; whatever it cannot tell raises."""

    def clock(self) -> int:
        """Return the clock of the multiprocessors in MHz."""

    def throttling(self) -> list[str]:
        """Return what slows the device."""

    def processes(self) -> set[int]:
        """Return the pids of processes that compute on the device."""


class ClockReader:
    """Read the state of one device; what its driver does not tell at first is not asked again."""

    def __init__(self, device: Device) -> None:
        """Touch nothing yet."""
        self._device = device
        self._library: Library | None = None
        self._off: dict[str, str] = {}
        """Why a part cannot be read."""
        self._told: str | None = None
        self._look_at_s = -math.inf
        self._foreign = 0

    @property
    def told(self) -> str:
        """Say `on`, or what is not looked at and why; empty where nothing is timed. Touches the device."""
        if self._told is None:
            self._told = self._begin()
        return self._told

    def read(self) -> Clocks | None:
        """Return the state of the device, or None where nothing of it can be read."""
        _ = self.told
        if self._library is None:
            return None
        try:
            return Clocks(
                sm_mhz=0 if "clock" in self._off else self._library.clock(),
                throttled=[] if "throttling" in self._off else self._library.throttling(),
                foreign_processes=0 if "processes" in self._off else self._others(self._library),
            )
        except Exception as error:  # noqa: BLE001 - whatever a foreign library raises
            return Clocks(sm_mhz=0, problem=_shown(error))

    def _begin(self) -> str:
        """Find the library, and try each part once."""
        if self._device.interpreted or self._device.target:
            return ""
        try:
            library: Library = _Nvml(self._device) if self._device.kind == "cuda" else _AmdSmi(self._device)
        except ModuleNotFoundError as error:
            return f"off: no module {error.name}; {_INSTALL[self._device.kind]}"
        except Exception as error:  # noqa: BLE001 - whatever a foreign library raises
            return f"off: {_shown(error)}"
        for part in _PARTS:
            try:
                getattr(library, part)()
            except Exception as error:  # noqa: BLE001 - the same
                self._off[part] = _shown(error)
        reasons = "; ".join(f"{part}: {reason}" for part, reason in self._off.items())
        if len(self._off) == len(_PARTS):
            return f"off: {reasons}"
        self._library = library
        return f"on, but for {reasons}" if reasons else "on"

    def _others(self, library: Library) -> int:
        began_s = time.monotonic()
        if began_s > self._look_at_s:
            self._foreign = sum(map(_is_foreign, library.processes()))
            ended_s = time.monotonic()
            known_s = max(_PROCESSES_KNOWN_S, (ended_s - began_s) / _LISTING_PART)
            self._look_at_s = ended_s + (known_s if not self._foreign else 0.0)  # it may go at any moment
        return self._foreign


_INSTALL = {
    "cuda": "pip install nvidia-ml-py (the extra `nvidia`)",
    "hip": "install the Python library of AMD SMI, which is part of ROCm",
}


class _Nvml:
    """NVIDIA's."""

    def __init__(self, device: Device) -> None:
        import pynvml  # noqa: PLC0415 - optional, extra `nvidia`

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        uuid = torch.cuda.get_device_properties(device.torch_device).uuid
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")

    def clock(self) -> int:
        return int(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))

    def throttling(self) -> list[str]:
        reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return [name for bit, name in _THROTTLING.items() if reasons & bit]

    def processes(self) -> set[int]:
        return {process.pid for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}


class _AmdSmi:
    """AMD's, whose functions and answers differ from release to release; it was not tried on a device."""

    def __init__(self, device: Device) -> None:
        import amdsmi  # noqa: PLC0415 - optional, part of ROCm

        self._smi: Any = amdsmi
        # Which of its handles is the device, torch finds out; it initialises the library too.
        self._handle = torch.cuda._get_amdsmi_handler(device.torch_device)  # noqa: SLF001 - there is no public name
        self._counted: dict[str, int] = {}

    def clock(self) -> int:
        told = self._smi.amdsmi_get_clock_info(self._handle, self._smi.AmdSmiClkType.GFX)
        return int(told["clk"] if "clk" in told else told["cur_clk"])

    def throttling(self) -> list[str]:
        """Return what slowed the device since it was asked last."""
        told = self._smi.amdsmi_get_gpu_metrics_info(self._handle)
        counted = {name: told[name] for name in _RESIDENCIES if isinstance(told.get(name), int)}
        if not counted:
            raise LookupError("the driver counts nothing")
        before, self._counted = self._counted, counted
        return [_RESIDENCIES[name] for name, count in counted.items() if count > before.get(name, count)]

    def processes(self) -> set[int]:
        found = self._smi.amdsmi_get_gpu_process_list(self._handle)
        told = [
            one if isinstance(one, Mapping) else self._smi.amdsmi_get_gpu_process_info(self._handle, one)
            for one in found
        ]
        return {int(one["pid"]) for one in told}


def _is_foreign(pid: int) -> bool:
    """Tell whether a process may launch kernels beside ours.

    Device processes of this user's runs wait for the lock while another one times; others have locks of their own.
    In a container the driver tells pids of another namespace, of which nothing can be said.
    """
    process = Path(f"/proc/{pid}")
    try:
        command, owner = (process / "cmdline").read_bytes(), process.stat().st_uid
    except OSError:
        return False
    waits = b"pytest_kernelqual.on_device" in command and owner == os.getuid()
    return pid != os.getpid() and bool(command) and not waits


def _shown(error: Exception) -> str:
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
