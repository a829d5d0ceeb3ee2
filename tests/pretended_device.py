"""A GPU that is not there: Triton compiles for it, and launches compute on the CPU what the kernels would.

Kernels are told by name, those of `suites/evidence/traps.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from launch_parts import FakeDriver, Launcher
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.messages import Opened
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.on_device.environment import Device
from pytest_kernelqual.on_device.executor import Executor
from pytest_kernelqual.on_device.provocation import Provocation
from pytest_kernelqual.on_device.qualify import OpenCase


def _scaled(x: torch.Tensor, y: torch.Tensor, n: int, factor: float) -> None:
    y[:n] = x[:n] * factor


def _added(x: torch.Tensor, y: torch.Tensor, n: int, *_unused: Any) -> None:
    y[:n] += x[:n]


def _summed(x: torch.Tensor, y: torch.Tensor, n: int, *_unused: Any) -> None:
    y[0] = x[:n].sum()


_COMPUTED: dict[str, Callable[..., None]] = {
    "scaled": _scaled,
    "_scaled": _scaled,
    "limited_scaled": _scaled,
    "added": _added,
    "summed": _summed,
    "counted_up": _summed,
    "_accumulated": _added,
    "multiplied_and_added": lambda x, y, n, factor: _scaled(x, y, n, factor + 1),
}


class ComputingLauncher(Launcher):
    """Call the hooks, and compute what the programs of the grid would."""

    def __init__(self, src: Any, metadata: Any) -> None:
        """Keep the parameters' names."""
        super().__init__(src, metadata)
        self.names = src.fn.arg_names
        self.name = src.fn.__name__

    def __call__(self, *launch: Any) -> None:
        """Count the launch, and compute."""
        super().__call__(*launch)
        PretendedDriver.launches += 1
        arguments = dict(zip(self.names, launch[9:], strict=True))
        x, y, n = arguments["x"], arguments["y"], arguments["n"]
        _COMPUTED[self.name](x, y, min(n, launch[0] * arguments["BLOCK"]), arguments.get("factor"))


class PretendedDriver(FakeDriver):
    """A driver whose launches compute."""

    launcher_cls = ComputingLauncher
    launches = 0
    """Over all drivers."""

    def __init__(self, target: GPUTarget) -> None:
        """Keep what to compile for."""
        super().__init__()
        self.target = target

    def get_current_device(self) -> int:
        """Return a number of the target's own, by which Triton remembers what it compiled."""
        return ["cuda", "hip"].index(self.target.backend)

    def get_current_target(self) -> GPUTarget:
        """Return what to compile for."""
        return self.target


class PretendedDevice(Device):
    """The device of an open case: a GPU, whose tensors are the CPU's."""

    def synchronize(self) -> None:
        """Wait for nothing: launches have computed when they return."""


@contextmanager
def pretended(target: GPUTarget, cache: str) -> Iterator[PretendedDevice]:
    """Let Triton see a device of `target` inside the block, with a cache of its own."""
    before = driver._active
    driver.set_active(PretendedDriver(target))
    try:
        with knobs.cache.scope(), knobs.runtime.scope():
            knobs.cache.dir = cache
            knobs.runtime.interpret = False
            yield PretendedDevice("hip" if target.backend == "hip" else "cuda", torch.device("cpu"))
    finally:
        driver._active = before


def opened(
    spec: KernelSpec, case: Case, device: Device, *, repeats: int = 3, stream: str = "0/0"
) -> tuple[OpenCase, Opened]:
    """Return a case whose fixed launch ran."""
    executor = Executor(
        spec,
        case,
        stream=stream,
        device=device,
        provocation=Provocation(device, wanted=False),
        on_progress=lambda _phase, _launches: None,
    )
    found = OpenCase(executor, repeats=repeats)
    return found, found.open()
