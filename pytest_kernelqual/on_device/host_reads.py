"""Keep host code of a dry launch from reading what its kernels should have computed, and did not."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_kernelqual.errors import DryRunError
from pytest_kernelqual.launch.patching import patch
from pytest_kernelqual.on_device.environment import Device

_READING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_MASKS = (torch.bool, torch.uint8)
# What gives the values of a tensor, or its memory, to the host where torch's dispatcher is not asked.
# `__array__` calls `numpy`; addresses alone are asked for by production that tests alignment.
_UNSEEN = (
    (torch.Tensor, ("tolist", "numpy", "__dlpack__")),
    (torch.UntypedStorage, ("tolist", "__getitem__")),
    (torch.utils.dlpack, ("to_dlpack",)),
    (torch, ("to_dlpack",)),
)


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
    """Refuse what gives plain values, tensors of a shape that depends on values, or a tensor's memory."""
    mode = _Refusal()
    with _unseen_reads(mode.refuse), mode:
        yield mode.begin


class _Refusal(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refuses = False

    def begin(self) -> None:
        self._refuses = True

    def refuse(self, what: str) -> None:
        """Raise where a read comes after a launch."""
        if self._refuses:
            raise DryRunError(f"{what} reads what a kernel should have computed: it is not known without running")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if _reads_values(func, args):
            self.refuse(func.name())
        return func(*args, **(kwargs or {}))


def _reads_values(func: Any, args: Any) -> bool:
    if func is torch.ops.aten.index.Tensor:  # only a mask makes the shape of its result depend on values
        return any(index is not None and index.dtype in _MASKS for index in args[1])
    return bool(_READING & set(func.tags))


@contextmanager
def _unseen_reads(refuse: Callable[[str], None]) -> Iterator[None]:
    """Ask `refuse` about reads that go past the dispatcher, in all threads."""
    printing: Any = torch._tensor_str  # noqa: SLF001 - what `Tensor.__repr__` calls; it hides from modes how it reads

    def asking(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(*args: Any, **keywords: Any) -> Any:
            refuse(name)
            return original(*args, **keywords)

        return read

    with ExitStack() as undo:
        for owner, names in _UNSEEN:
            for name in names:
                patch(undo, owner, name, asking(f"{owner.__name__}.{name}", getattr(owner, name)))
        patch(undo, printing, "_str", asking("printing a tensor", printing._str))  # noqa: SLF001 - as above
        yield
