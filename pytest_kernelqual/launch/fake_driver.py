"""A driver for a target that is not there: Triton specialises and compiles for it, and nothing can be launched."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import compiler
from triton.runtime.driver import driver

from pytest_kernelqual.errors import DryRunError


class FakeDriver:
    """Answer as the driver of `target` would, with tensors of the CPU."""

    def __init__(self, target: GPUTarget, properties: Mapping[str, Any] | None = None) -> None:
        """Keep the target, and what is known of its devices."""
        self.target = target
        self.properties = properties
        self.utils = self

    def get_current_target(self) -> GPUTarget:
        """Return what to compile for."""
        return self.target

    def get_current_device(self) -> int:
        """Return the only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Stay on the only device."""

    def get_current_stream(self, _device: int = 0) -> int:
        """Return the default stream."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Return where tensors really are."""
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Return torch's module for that device."""
        return torch.cpu

    def get_device_properties(self, _device: int = 0) -> Mapping[str, Any]:
        """Return what is known of the only device."""
        if self.properties is None:
            raise _refused("get_device_properties")
        return self.properties

    def is_active(self) -> bool:
        """Tell that there is a device."""
        return True

    def __getattr__(self, name: str) -> Any:
        """Refuse what needs the device itself: loading, launching, properties, timing."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise _refused(name)


def _refused(name: str) -> DryRunError:
    return DryRunError(f"{name} of the driver was asked for, and there is no device: nothing is loaded or launched")


@contextmanager
def fake_driver(target: GPUTarget) -> Iterator[None]:
    """Let Triton see a device of `target` inside the block; tensors are those of the CPU."""
    before = driver._active  # noqa: SLF001 - reading `active` would start the real one
    driver.set_active(FakeDriver(target))
    compiler.max_shared_mem.cache_clear()
    try:
        yield
    finally:
        driver._active = before  # noqa: SLF001 - there may have been none
        compiler.max_shared_mem.cache_clear()
