"""What a launch gave: the bytes of everything that it returned or changed, copied before the next launch."""

import ctypes
import dataclasses
import hashlib
import json
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.messages import OutputBytes
from pytest_kernelqual.on_device.digests import material
from pytest_kernelqual.on_device.element_types import as_bits
from pytest_kernelqual.on_device.guards import fill_elements, no_torch_function
from pytest_kernelqual.on_device.memory import plain_allocations


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Output:
    """One tensor or number that a launch gave."""

    name: str
    """`return`, `return[1]`, `return.lse`, `input x` or `input x.grad`."""
    tensor: Tensor
    """The bytes of its elements in row-major order: one axis, uint8, on its device."""
    shape: tuple[int, ...]
    dtype: str
    """`float32`, or `Python int`."""
    strides: tuple[int, ...]
    outside: Tensor | None = None
    """All bytes of the returned storage, uint8, zero where returned elements lie; None where nothing else is there.

    Of several outputs that share a storage the first one has it.
    """


_SCALARS: dict[type, Callable[[Any], bytes]] = {
    bool: lambda value: bytes([value]),
    int: lambda value: str(value).encode(),
    float: lambda value: struct.pack("=d", value),
    complex: lambda value: struct.pack("=dd", value.real, value.imag),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: bytes,
    type(None): lambda _: b"",
    torch.dtype: lambda value: str(value).encode(),
    torch.device: lambda value: str(value).encode(),
}


def collect(
    returned: Any, changed: Iterable[tuple[str, Tensor]] = (), grads: Iterable[tuple[str, Tensor]] = ()
) -> list[Output]:
    """Copy everything that a launch gave.

    Args:
        returned: What the launch returned: tensors, numbers, strings or None, in any nesting of tuples, lists,
            mappings, dataclasses and named tuples. Objects of triton, such as a compiled kernel, are no outputs.
        changed: Names and tensors of the inputs that the launch changed.
        grads: Names of inputs and the gradients that the launch left on them.

    Raises:
        InputError: Nothing was given that can be compared, or something that cannot.
    """
    gave = [] if returned is None else list(leaves("return", returned))
    gave += [(f"input {name}", tensor) for name, tensor in changed]
    gave += [(f"input {name}.grad", grad) for name, grad in grads]
    with plain_allocations(), torch.no_grad(), no_torch_function():
        plain = [(name, _plain(name, leaf) if isinstance(leaf, Tensor) else leaf) for name, leaf in gave]
        outside = _outside([leaf for name, leaf in plain if isinstance(leaf, Tensor) and name.startswith("return")])
        outputs = [_copied(name, leaf, outside.get(id(leaf))) for name, leaf in plain]
    if not any(output.tensor.numel() for output in outputs):
        nothing = "None" if returned is None else "no tensor"
        told = f"{len(outputs)} outputs without elements" if outputs else nothing
        raise InputError(
            f"the launch returned {told} and changed no input: nothing that can be compared; "
            "return its output tensors, or write into a tensor that seeded made"
        )
    return outputs


def digest(outputs: list[Output]) -> str:
    """Return `sha256:...` of names, shapes, dtypes, strides and bytes."""
    sha256 = hashlib.sha256()
    for output in outputs:
        header = [output.name, output.shape, output.dtype, output.strides, output.tensor.numel()]
        sha256.update(json.dumps(header).encode())
        sha256.update(material(output.tensor))
    return "sha256:" + sha256.hexdigest()


def to_messages(outputs: list[Output]) -> list[OutputBytes]:
    """Return the outputs as data for another process."""
    hosts = [output.tensor.cpu() for output in outputs]
    return [
        OutputBytes(
            name=output.name,
            shape=output.shape,
            dtype=output.dtype,
            data=ctypes.string_at(host.data_ptr(), host.numel()) if host.numel() else b"",
        )
        for output, host in zip(outputs, hosts, strict=True)
    ]


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, tensor or scalar) of everything that can be compared."""
    if isinstance(value, Tensor) or type(value) in _SCALARS:
        yield name, value
    elif _is_numpy(value):
        yield name, _from_numpy(name, value)
    elif (parts := _parts(value)) is not None:
        for suffix, part in parts:
            yield from leaves(name + suffix, part)
    elif isinstance(value, int | float | complex | str):
        yield name, _plain_scalar(value)
    elif not type(value).__module__.startswith("triton"):
        raise InputError(
            f"{name} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be compared; "
            "return tensors, numbers, strings, or tuples, lists, mappings and dataclasses of these"
        )


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Return (suffix of the name, value) of what a container holds; None for anything else."""
    if isinstance(value, Mapping):
        # Mappings are equal whatever their order.
        return sorted(
            ((f".{key}" if isinstance(key, str) else f"[{key!r}]", part) for key, part in value.items()),
            key=lambda item: item[0],
        )
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{field}", getattr(value, field)) for field in value._fields]
    if isinstance(value, tuple | list):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def _plain_scalar(value: complex | str) -> complex | str:
    """Return a member of an enum, or of another subclass, as the number or string that it is."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else complex(value)


def _is_numpy(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def _from_numpy(name: str, value: Any) -> Tensor:
    numpy = sys.modules["numpy"]
    try:
        return torch.from_numpy(numpy.array(value))
    except TypeError as error:
        raise InputError(f"{name} is a numpy array of {value.dtype}, which torch does not know: {error}") from None


def _copied(name: str, leaf: Any, outside: Tensor | None) -> Output:
    if not isinstance(leaf, Tensor):
        data = _SCALARS[type(leaf)](leaf)
        tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        return Output(name, tensor, (), f"Python {type(leaf).__name__}", ())
    copy = _row_major(as_bits(leaf.resolve_conj().resolve_neg()))
    dtype = str(leaf.dtype).removeprefix("torch.")
    return Output(name, copy, tuple(leaf.shape), dtype, leaf.stride(), outside)


def _row_major(bits: Tensor) -> Tensor:
    """Return a copy of the bytes of the elements."""
    if not bits.is_cpu or not bits.is_contiguous():
        return bits.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)
    copy = torch.empty(bits.nbytes, dtype=torch.uint8)  # not clone: waking torch's threads costs more than the work
    ctypes.memmove(copy.data_ptr(), bits.data_ptr(), copy.numel())
    return copy


def _plain(name: str, tensor: Tensor) -> Tensor:
    """Return the tensor without subclass and autograd; InputError where it has no bytes of its own."""
    kind = None
    if tensor.is_nested:
        kind = "nested"
    elif tensor.layout != torch.strided:
        kind = str(tensor.layout).removeprefix("torch.").replace("_", " ")
    elif tensor.is_quantized:
        kind = "quantised"
    elif tensor.device.type == "meta":
        kind = "meta"
    elif type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        kind = f"{type(tensor).__name__} (a subclass that is not made of bytes)"
    if kind is not None:
        raise InputError(f"{name} is a {kind} tensor, which cannot be compared byte for byte; return plain tensors")
    return tensor.detach().as_subclass(Tensor)


def _outside(tensors: list[Tensor]) -> dict[int, Tensor]:
    """Return, by id of a tensor, the bytes of its storage in which no element of these tensors lies."""
    views: dict[int, list[Tensor]] = {}
    for tensor in tensors:
        views.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
    found = {}
    for address, sharing in views.items():
        first = sharing[0]
        size_bytes = first.untyped_storage().nbytes()
        if address == 0 or any(tensor.numel() * tensor.itemsize == size_bytes for tensor in sharing):
            continue
        whole = torch.empty(0, dtype=torch.uint8, device=first.device).set_(first.untyped_storage()).clone()
        for tensor in sharing:
            if tensor.numel():
                offset = int(tensor.storage_offset())
                fill_elements(whole, tensor.shape, tensor.stride(), tensor.itemsize, 0, offset=offset)
        found[id(first)] = whole
    return found
