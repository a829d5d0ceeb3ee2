"""Parts of the launch tests: a driver that launches nothing, and kernels loaded interpreted or compiled."""

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget

N = 200


class Launcher:
    """Call the hooks as the drivers' own launchers do, and launch nothing."""

    def __init__(self, _src: Any, metadata: Any) -> None:
        """Keep what is launched."""
        self.metadata = metadata

    def __call__(self, *launch: Any) -> None:
        """Tell the hooks."""
        _x, _y, _z, _stream, _function, _packed, metadata, enter, leave, *_args = launch
        if enter is not None:
            enter(metadata)
        if leave is not None:
            leave(metadata)


class FakeDriver:
    """A CUDA device that is not there."""

    launcher_cls = Launcher

    def __init__(self) -> None:
        """Begin with the first handle."""
        self.utils = self
        self.handles = itertools.count(1)

    def load_binary(self, *_binary: Any) -> tuple[None, int, int, int, int]:
        """Return module, function, registers, spills and threads.

        Without a module there is nothing to unload when a compiled kernel is collected after the test.
        """
        return None, next(self.handles), 32, 0, 1024

    def get_device_properties(self, _device: int = 0) -> dict[str, int]:
        """Return the limits that Triton looks at."""
        return {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32}

    def get_current_device(self) -> int:
        """Return the only device."""
        return 0

    def get_current_stream(self, _device: int = 0) -> int:
        """Return the default stream."""
        return 0

    def get_current_target(self) -> GPUTarget:
        """Return what to compile for."""
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> torch.device:
        """Return where tensors really are."""
        return torch.device("cpu")

    def is_active(self) -> bool:
        """Tell that there is a device."""
        return True


def load(mode: str) -> ModuleType:
    """Load the kernels anew, "interpreted" or "compiled"."""
    name = f"launch_kernels_{mode}"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("launch_kernels.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with knobs.runtime.scope():
        knobs.runtime.interpret = mode == "interpreted"
        spec.loader.exec_module(module)
    return module


def ran(kernels: Any, x: torch.Tensor, y: torch.Tensor) -> bool:
    """Tell whether the output is right, where anything ran at all."""
    return kernels.__name__.endswith("compiled") or torch.equal(x, y)
