"""Write down what a launch of the kernel under test is given, so that a script can launch it by itself."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from triton import language

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.launch.capturing import captured
from pytest_kernelqual.launch.kernels import jit_function, levels
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.repro import LaunchSaved
from pytest_kernelqual.on_device.executor import Executor
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.memory import PATTERN_A, plain_allocations

_MOST_BYTES = 2 << 30


class _CannotTellError(KernelqualError):
    """A launch that cannot be written down."""


class _Arm:
    """The launches of one call, of which the first one's memory is kept."""

    def __init__(self, prefix: str, inputs: set[int]) -> None:
        """Take the prefix of names, and the addresses of the inputs' memory."""
        self.grid: tuple[int, ...] | None = None
        self.arguments: dict[str, str] = {}
        self.memory: dict[str, torch.Tensor | int] = {}
        self.launches = 0
        self._prefix = prefix
        self._inputs = inputs
        self._names: dict[int, str] = {}

    def take(self, arguments: Mapping[str, Any], grid: tuple[int, ...] | None) -> None:
        self.launches += 1
        if self.launches == 1:
            self.grid = grid
            with plain_allocations():
                self.arguments = {name: self._source(name, value) for name, value in arguments.items()}

    def share(self, other: "_Arm") -> None:
        """Take the names of another arm's memory where it holds the same bytes."""
        for (name, content), (known, held) in zip([*self.memory.items()], other.memory.items(), strict=False):
            if isinstance(content, int) or isinstance(held, int):
                alike = type(content) is type(held) and content == held
            else:
                alike = torch.equal(content, held)
            if alike:
                del self.memory[name]
                self.arguments = {key: code.replace(f"{name!a}", f"{known!a}") for key, code in self.arguments.items()}

    def _source(self, name: str, value: Any) -> str:
        """Return a value as Python code."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if type(value) is float and not math.isfinite(value):
            return f"float({str(value)!r})"
        if value is None or type(value) in (bool, int, float, str):
            return ascii(value)
        if type(value) in (tuple, list):
            parts = [self._source(f"{name}[{number}]", part) for number, part in enumerate(value)]
            return f"({', '.join(parts)},)" if parts else "()"
        dtype = next((one for one, known in vars(language).items() if known is value), None)
        if isinstance(value, language.dtype) and dtype is not None:
            return f"Type({dtype!a})"
        raise _CannotTellError(f"its argument {name} is a {type(value).__name__}")

    def _tensor(self, tensor: torch.Tensor) -> str:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self._names:
            self._names[address] = f"{self._prefix}{len(self._names)}"
            self.memory[self._names[address]] = self._content(tensor)
        told = (self._names[address], tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        return f"Memory({', '.join(map(ascii, told))}, {str(tensor.dtype).removeprefix('torch.')!a})"

    def _content(self, tensor: torch.Tensor) -> torch.Tensor | int:
        """Return the bytes of a tensor's memory; only their number where nobody wrote them before the launch."""
        storage = tensor.untyped_storage()
        taken = sum(one if isinstance(one, int) else one.numel() for one in self.memory.values())
        if taken + storage.nbytes() > _MOST_BYTES:
            raise _CannotTellError(f"the memory that it is given takes more than {_MOST_BYTES / 1e9:.1f} GB")
        live = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        data = live.to("cpu", copy=True)
        if storage.data_ptr() not in self._inputs and bool(data.eq(PATTERN_A).all()):
            return storage.nbytes()
        return data


def save_launch(executor: Executor, config: Config, file: Path) -> LaunchSaved:
    """Run the fixed launch of a case, keep the candidate back, and write what both are given to a file."""
    kernel = executor.spec.kernel
    try:
        executor.build()
        if kernel is None or executor.takes_config:
            return LaunchSaved(
                problem="the launch takes the config as its argument: host code decides what is launched"
            )
        arms = [_arm(executor, None, "memory"), _arm(executor, config, "candidate_memory")]
        folder, module, name = _home(kernel)
    except LaunchFailed as failed:
        return LaunchSaved(problem=f"{failed.outcome}: {failed.reason}")
    except _CannotTellError as problem:
        return LaunchSaved(problem=str(problem))
    fixed, own = arms
    own.share(fixed)
    torch.save({**own.memory, **fixed.memory}, file)
    return LaunchSaved(
        launches=fixed.launches,
        constants="\n".join(
            [
                f"INTERPRETED = {executor.device.interpreted}",
                f"FOLDER = {str(folder)!a}",
                f"MODULE = {module!a}",
                f"KERNEL = {name!a}",
                f"FIXED_GRID = {fixed.grid!a}",
                *_dict("FIXED", fixed.arguments),
                f"CANDIDATE_GRID = {own.grid!a}",
                *_dict("CANDIDATE", own.arguments),
            ]
        ),
    )


def _arm(executor: Executor, config: Config | None, prefix: str) -> _Arm:
    arm = _Arm(prefix, {memory.address for memory in executor.inputs.memories})
    with captured(executor.spec.kernel, arm.take, launching=config is None):
        executor.execute(config, PATTERN_A)
    if arm.grid is None:
        raise _CannotTellError("the kernel was not launched through its Triton object")
    return arm


def _home(kernel: Any) -> tuple[Path, str, str]:
    """Return where a kernel is imported from: folder, module, and its name there."""
    jit = jit_function(kernel)
    home = jit.fn.__module__
    module = sys.modules.get(home)
    file = getattr(module, "__file__", None)
    name = next((name for name, value in vars(module).items() if levels(value)[-1:] == [jit]), "") if module else ""
    if not name or file is None:
        raise _CannotTellError(f"the kernel {jit.fn.__name__} cannot be imported from {home}")
    path = Path(file).resolve()
    return path.parents[len(home.split(".")) - (path.name != "__init__.py")], home, name


def _dict(name: str, arguments: Mapping[str, str]) -> list[str]:
    return [f"{name} = {{", *(f"    {argument!a}: {code}," for argument, code in arguments.items()), "}"]
