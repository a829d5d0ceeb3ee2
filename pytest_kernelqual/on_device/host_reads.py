"""Keep host code of a dry launch from reading what its kernels should have computed, and did not."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_kernelqual.errors import DryRunError
from pytest_kernelqual.on_device.environment import Device

_READING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


@contextmanager
def host_reads_refused(device: Device) -> Iterator[Callable[[], None]]:
    """Give a function from whose call on, until the end of the block, the host gets no values of the device."""
    with _of_gpu() if device.torch_device.type == "cuda" else _of_cpu() as refuse:
        yield refuse


@contextmanager
def _of_gpu() -> Iterator[Callable[[], None]]:
    """Refuse whatever would wait for the device, in all threads."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # torch calls the mode a prototype each time
        warnings.simplefilter("ignore", UserWarning)
        try:
            yield lambda: torch.cuda.set_sync_debug_mode("error")
        finally:
            torch.cuda.set_sync_debug_mode(before)


@contextmanager
def _of_cpu() -> Iterator[Callable[[], None]]:
    """Refuse the operators whose results are plain values, or tensors of a shape that depends on values."""
    mode = _Refusal()
    with mode:
        yield mode.begin


class _Refusal(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refuses = False

    def begin(self) -> None:
        self._refuses = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if self._refuses and _READING & set(func.tags):
            raise DryRunError(
                f"{func.name()} reads what a kernel should have computed: it is not known without running"
            )
        return func(*args, **(kwargs or {}))
