"""Keep host code of a dry launch from reading what is not there: what its kernels should have computed, and did not.

For compile targets the values of large inputs are not there either.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

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


# What is only compiled for needs no values but those that host code may read, such as lengths.
_MOST_DRAWN = 1 << 16
# Operators whose results depend on the form of their arguments alone.
_OF_FORM = re.compile(r"aten::(new_\w+|\w+_like)(\.|$)")


class Undrawn:
    """Inputs of which no values were drawn, for compile targets, and what torch has made of them."""

    def __init__(self) -> None:
        """Know of none."""
        self._names: dict[int, tuple[str, StorageWeakRef]] = {}

    def draws(self, tensor: torch.Tensor, name: str) -> bool:
        """Tell whether an input's values are to be drawn, and remember it where not."""
        if tensor.numel() > _MOST_DRAWN:
            self.add(tensor, name)
        return tensor.numel() <= _MOST_DRAWN

    def add(self, tensor: torch.Tensor, name: str) -> None:
        """Remember that the values of a tensor depend on those of the input of that name."""
        # The weak reference keeps the identity from being given to another storage; not the memory.
        storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._names.setdefault(storage.cdata, (name, storage))

    def name(self, values: Any) -> str:
        """Return the input that a tensor or storage depends on; empty where its values are there."""
        storage = values.untyped_storage() if isinstance(values, torch.Tensor) else values
        known = self._names.get(StorageWeakRef(storage).cdata)  # type: ignore[no-untyped-call]
        return known[0] if known is not None else ""


@contextmanager
def host_reads_refused(device: Device, undrawn: Undrawn) -> Iterator[Callable[[], None]]:
    """Give a function from whose call on, until the end of the block, the host gets no values of the device.

    What was not drawn is not read before either.
    """
    with _of_gpu() if device.torch_device.type == "cuda" else _of_cpu(undrawn) as refuse:
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
def _of_cpu(undrawn: Undrawn) -> Iterator[Callable[[], None]]:
    """Refuse what gives plain values, tensors of a shape that depends on values, or a tensor's memory."""
    mode = _Refusal(undrawn)
    with _unseen_reads(lambda what, values: mode.refuse(what, [values])), mode:
        yield mode.begin


class _Refusal(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, undrawn: Undrawn) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._undrawn = undrawn
        self._refuses = False

    def begin(self) -> None:
        self._refuses = True

    def refuse(self, what: str, values: Iterable[Any]) -> None:
        """Raise where a read comes after a launch, or is one of values that were not drawn."""
        if self._refuses:
            raise DryRunError(f"{what} reads what a kernel should have computed: it is not known without running")
        name = self._input_of(values)
        if name:
            raise DryRunError(
                f"{what} reads what depends on input {name!r}: values of inputs of more than {_MOST_DRAWN} elements "
                "are not drawn for compile targets"
            )

    def _input_of(self, values: Iterable[Any]) -> str:
        return next((name for one in values if (name := self._undrawn.name(one))), "")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        read = _read(func, args, given)
        if read is not None:
            self.refuse(func.name(), read)
        result = func(*args, **(kwargs or {}))
        name = self._input_of(given)
        if name and not _OF_FORM.match(func.name()):
            for tensor in [*tree_leaves(result), *_written(func, args)]:
                if isinstance(tensor, torch.Tensor):
                    self._undrawn.add(tensor, name)
        return result


def _read(func: Any, args: Any, given: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Return the tensors whose values an operator gives to the host; None where it gives none."""
    if func is torch.ops.aten.index.Tensor:  # only a mask makes the shape of its result depend on values
        return [index for index in args[1] if index is not None and index.dtype in _MASKS] or None
    return given if _READING & set(func.tags) else None


def _written(func: Any, args: Any) -> list[Any]:
    """Return what an operator writes of its arguments; what it is given by name for that, it returns."""
    found = [value for told, value in zip(func._schema.arguments, args, strict=False) if told.is_write]  # noqa: SLF001 - it has no public name
    return tree_leaves(found)


@contextmanager
def _unseen_reads(refuse: Callable[[str, Any], None]) -> Iterator[None]:
    """Ask `refuse` about reads that go past the dispatcher, in all threads."""
    printing: Any = torch._tensor_str  # noqa: SLF001 - what `Tensor.__repr__` calls; it hides from modes how it reads

    def asking(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(values: Any, *args: Any, **keywords: Any) -> Any:
            refuse(name, values)
            return original(values, *args, **keywords)

        return read

    with ExitStack() as undo:
        for owner, names in _UNSEEN:
            for name in names:
                patch(undo, owner, name, asking(f"{owner.__name__}.{name}", getattr(owner, name)))
        patch(undo, printing, "_str", asking("printing a tensor", printing._str))  # noqa: SLF001 - as above
        yield
