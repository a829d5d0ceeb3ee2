"""What production is told when it asks about its device, in a process that compiles for a target.

Libraries choose tiles, configs and whole kernels by such answers, many of them while they are imported.
"""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from pytest_kernelqual.errors import DryRunError
from pytest_kernelqual.model.targets import Target

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": what a block has of shared memory
# without asking for more, registers of a multiprocessor; on AMD the former is all that there is.
_STATIC_SHARED_BYTES = 48 * 1024
_REGISTERS = 65536
# Libraries ask which of the two torch was built for; the number decides little.
_A_RELEASE = {"cuda": "12.8", "hip": "7.0"}

# Names of torch's properties, and of Triton's, of which nothing is known.
_NOT_KNOWN = {
    *("multi_processor_count", "total_memory", "L2_cache_size", "max_threads_per_multi_processor", "clock_rate"),
    *("memory_clock_rate", "memory_bus_width", "shared_memory_per_multiprocessor", "is_integrated", "uuid"),
}


class _Properties(SimpleNamespace):
    """Torch's properties of a device."""

    def __getattr__(self, name: str) -> Any:
        """Refuse what a real device would tell: a default that the caller may have is not what production has there."""
        if name in _NOT_KNOWN:
            raise _unknown(self.name, name)
        raise AttributeError(name)


class _Items(dict[str, Any]):
    """The same by Triton's names."""

    def __missing__(self, name: str) -> Any:
        """Refuse."""
        raise _unknown(self["name"], name)


def _unknown(target: str, name: str) -> DryRunError:
    return DryRunError(f"{name} of the device was asked for, and is not known of {target}")


def lockstep_threads(target: Target) -> int:
    """Return the threads of a warp, or of a wavefront: 64 on CDNA and older, 32 on RDNA (gfx10 and later)."""
    return 64 if target.name.startswith("hip:gfx9") else 32


def driver_properties(target: Target) -> dict[str, Any]:
    """Return what Triton's driver tells of a device."""
    known = {"multiprocessor_count": target.compute_units} if target.compute_units else {}
    return _Items(
        name=target.name,
        max_shared_mem=target.shared_bytes,
        max_num_regs=_REGISTERS,
        warpSize=lockstep_threads(target),
        **known,
    )


def answer_for(target: Target) -> None:
    """Let torch tell of one device of this target from now on; tensors stay on the CPU."""
    backend, architecture = target.name.split(":")
    digits = architecture.removeprefix("gfx")
    capability = (int(digits[:-2]), int(digits[-2], 16)) if backend == "hip" else divmod(int(digits), 10)
    known = {"multi_processor_count": target.compute_units} if target.compute_units else {}
    properties = _Properties(
        name=target.name,
        major=capability[0],
        minor=capability[1],
        warp_size=lockstep_threads(target),
        max_threads_per_block=target.threads,
        regs_per_multiprocessor=_REGISTERS,
        shared_memory_per_block=_STATIC_SHARED_BYTES if backend == "cuda" else target.shared_bytes,
        shared_memory_per_block_optin=target.shared_bytes,
        **({"gcnArchName": architecture} if backend == "hip" else {}),
        **known,
    )
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda _device=None: target.name,
        "get_device_capability": lambda _device=None: capability,
        "get_device_properties": lambda _device=None: properties,
        "device": nullcontext,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    for name, release in _A_RELEASE.items():
        setattr(torch.version, name, release if name == backend else None)
