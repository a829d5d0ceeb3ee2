"""The call trace of a launch: what it asks of torch, operator by operator."""

import ctypes
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack

from pytest_kernelqual.errors import UnknownProgramError
from pytest_kernelqual.launch.patching import patch
from pytest_kernelqual.launch.storages import Storages

# Contents up to this size are hashed; of larger ones it is known only whether they lie in the same memory.
_MOST_HASHED_BYTES = 1 << 20
_OURS = ("aten", "prims", "prim")
_PLAIN = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_REFUSED_TAGS = {
    torch.Tag.data_dependent_output: "reads values from the device",
    torch.Tag.dynamic_output_shape: "gives a shape that depends on values",
    torch.Tag.nondeterministic_seeded: "draws random numbers",
}
# On results that were not computed they would end the process's use of the device.
_ASSERTIONS = ("aten::_assert_async", "aten::_functional_assert_async")
_DISPATCH_KEYS = {"cpu": "CPU", "cuda": "CUDA"}


class _Unreadable(BaseException):
    """Ends a launch whose trace cannot be known; no `except Exception` of production code may take it."""


class CallTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Log the operators that are called inside the block, while the kernels between them are kept back.

    The block ends at the first operator by which the results of kernels could reach host code.
    """

    def __init__(
        self,
        inputs: Iterable[Tensor],
        *,
        device: torch.device,
        lasting: Storages,
        launched: Callable[[], int],
    ) -> None:
        """Prepare.

        Args:
            inputs: What the launch works on; other tensors from outside are told apart by what they hold.
            device: Where kernels run.
            lasting: Storages of earlier traces, for those whose contents are too many to be compared.
            launched: Counts the launches so far.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[Any] = []
        """Operators with their arguments, results and place among the launches; tensors from outside."""
        self.unknown = ""
        """Why the trace cannot be known; empty where it is."""
        self._device = device
        self._lasting = lasting
        self._launched = launched
        self._storages = Storages()
        for tensor in inputs:
            self._storages.number(tensor)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Trace the block.

        Raises:
            UnknownProgramError: It reads values, or does what cannot be described; it has not run to its end then.
        """
        try:
            with self._prints_seen(), self:
                yield
        except _Unreadable:
            pass
        except Exception:
            if not self.unknown:  # else it may be for want of results
                raise
        if self.unknown:
            raise UnknownProgramError(self.unknown)

    @contextmanager
    def _prints_seen(self) -> Iterator[None]:
        """Refuse to format a tensor: torch hides from every mode how it reads the values."""
        printing: Any = torch._tensor_str  # noqa: SLF001 - what `Tensor.__repr__` calls
        formatted = printing._str  # noqa: SLF001 - as above

        def seen(tensor: Tensor, **how: Any) -> str:
            if not self._on_host(tensor):
                self._refuse("a tensor is printed, which reads its values")
            return str(formatted(tensor, **how))

        with ExitStack() as undo:
            patch(undo, printing, "_str", seen)
            yield

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch not to shield the hook from its compiler, which takes a second to import."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Log one operator and run it."""
        del types
        kwargs = kwargs or {}
        if getattr(func, "namespace", "") == "profiler":  # names a range of time, and does nothing
            return func(*args, **kwargs)
        self._refuse_operator(func)
        called = [self._launched(), func.name(), self._described(args), self._described(kwargs)]
        result = self._run(func, args, kwargs)
        results = list(_leaves(result))
        if any(not isinstance(item, Tensor | None) for item in results):
            self._refuse(f"{func.name()} reads values from the device")
        made = [item for item in results if isinstance(item, Tensor)]
        if any(map(self._on_host, made)) and any(
            isinstance(item, Tensor) and not self._on_host(item) for item in _leaves((args, kwargs))
        ):
            self._refuse(f"{func.name()} copies values to the host")
        for item in made:
            self._refuse_tensor(item)
            self._storages.number(item)
        self.events.append((*called, self._described(result)))
        return result

    def pointer(self, tensor: Tensor) -> int:
        """Return the number of a storage that a kernel is given."""
        if not any(mode is self for mode in _get_current_dispatch_mode_stack()):
            self.unknown = self.unknown or "a kernel is launched where torch's operators cannot be seen"
        return self._number(tensor)

    def note(self, name: str, value: Any) -> None:
        """Log a value that the launch gave."""
        with self.whole():
            self.events.append((name, self._described(value)))

    def _refuse(self, reason: str) -> None:
        self.unknown = self.unknown or reason
        raise _Unreadable

    def _refuse_operator(self, func: Any) -> None:
        if self.unknown:
            raise _Unreadable  # production caught the first one
        if not isinstance(func, torch._ops.OpOverload):  # noqa: SLF001 - it has no public name
            self._refuse(f"{func} is no plain operator")
        for tag, what in _REFUSED_TAGS.items():
            if tag in func.tags:
                self._refuse(f"{func.name()} {what}")
        if func.name().startswith(_ASSERTIONS):
            self._refuse(f"{func.name()} tests values on the device")

    def _refuse_tensor(self, tensor: Tensor) -> None:
        if type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__ or tensor.layout != torch.strided:
            self._refuse(f"a {type(tensor).__name__} of layout {tensor.layout} cannot be described")

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func.namespace in _OURS:
            with self:  # under inference mode, and inside of operators, torch has not taken these apart
                result = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if result is NotImplemented else result
        key = _DISPATCH_KEYS.get(self._device.type, "")
        if _written_in_python(func, key):
            # Run by its kernel, with the mode on again: what it calls is seen like anything else.
            with self:
                kernel = torch.library.get_kernel(func.name(), key)
                return kernel.call_boxed(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)), *args, **kwargs)  # noqa: SLF001 - as above
        if self._launched():
            self._refuse(f"{func.name()}, whose work cannot be seen, follows a launch")
        return func(*args, **kwargs)

    def _described(self, value: Any) -> Any:
        """Return what is compared of an argument or result."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if value is None or type(value) in (bool, int, str):
            return type(value).__name__, value
        if type(value) in (float, complex):
            return type(value).__name__, struct.pack("=dd", value.real, value.imag)
        if isinstance(value, tuple | list):
            return "list", [self._described(item) for item in value]
        if isinstance(value, Mapping):
            return "mapping", [(key, self._described(value[key])) for key in sorted(value)]
        if isinstance(value, _PLAIN):
            return type(value).__name__, str(value)
        self._refuse(f"a {type(value).__module__}.{type(value).__qualname__} cannot be described")
        raise AssertionError("refusing raises")

    def _tensor(self, tensor: Tensor) -> Any:
        self._refuse_tensor(tensor)
        number = self._number(tensor)
        content = self._content(tensor) if self._on_host(tensor) else None
        form = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), str(tensor.dtype), str(tensor.device))
        return "tensor", number, form, tensor.is_conj(), tensor.is_neg(), content

    def _number(self, tensor: Tensor) -> int:
        """Return the number of a storage; one from outside is logged with what it holds."""
        if tensor not in self._storages:
            self.events.append((self._launched(), "from outside", self._content(tensor)))
        return self._storages.number(tensor)

    def _content(self, tensor: Tensor) -> Any:
        """Return the digest of a storage, or which one it is where there is too much in it."""
        with _disable_current_modes():
            storage = tensor.untyped_storage()
            if storage.nbytes() > _MOST_HASHED_BYTES:
                return "storage", self._lasting.number(tensor)
            host = storage.cpu()  # type: ignore[no-untyped-call]
            return storage.nbytes(), sha256(ctypes.string_at(host.data_ptr(), host.nbytes())).hexdigest()

    def _on_host(self, tensor: Tensor) -> bool:
        """Tell whether host code can read and write the tensor without being seen."""
        return tensor.device.type == "cpu" and self._device.type != "cpu"


class _ShieldedCallTrace(CallTrace):  # type: ignore[no-untyped-call]
    """A trace beside torch's compiler, which would compile the hook where it is called from compiled code."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_dispatch__(func, types, args, kwargs)


def call_trace(
    inputs: Iterable[Tensor], *, device: torch.device, lasting: Storages, launched: Callable[[], int]
) -> CallTrace:
    """Return a trace; the arguments are those of `CallTrace`."""
    kind = _ShieldedCallTrace if "torch._dynamo" in sys.modules else CallTrace
    return kind(inputs, device=device, lasting=lasting, launched=launched)


def _written_in_python(func: Any, key: str) -> bool:
    """Tell whether the operator's kernel for a device is a Python function."""
    name = func._schema.name.replace("::", "/") + (f".{func._overloadname}" if func._overloadname != "default" else "")  # noqa: SLF001 - there are no public names
    made: set[str] = torch.library._impls  # noqa: SLF001 - where torch notes them
    return any(f"{name}/{one}" in made for one in (key, "CompositeExplicitAutograd"))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
