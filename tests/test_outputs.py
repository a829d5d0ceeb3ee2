"""Outputs: what a launch gave, as names, forms and bytes."""

import enum
import struct
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.on_device.memory import PATTERN_A, Memory
from pytest_kernelqual.on_device.outputs import collect, digest, to_messages

Pair = namedtuple("Pair", "out lse")  # noqa: PYI024 - what torch's own returns look like


@dataclass
class Result:
    """A launch's result as libraries return it."""

    out: Tensor
    count: int


class Kind(enum.IntEnum):
    """A number with a name."""

    ONE = 1


X = torch.arange(6.0).view(2, 3)


@pytest.mark.parametrize(
    ("returned", "names"),
    [
        (X, ["return"]),
        ((X, X), ["return[0]", "return[1]"]),
        ([X, (X, None)], ["return[0]", "return[1][0]", "return[1][1]"]),
        ({"b": X, "a": 1}, ["return.a", "return.b"]),
        (OrderedDict([(3, X), ("lse", X)]), ["return.lse", "return[3]"]),
        (Pair(X, 2), ["return.out", "return.lse"]),
        (Result(X, 2), ["return.out", "return.count"]),
        (torch.sort(X), ["return[0]", "return[1]"]),
        ((True, 1, 1.5, 2j, "x", None, b"y", torch.float16), [f"return[{index}]" for index in range(8)]),
        (Kind.ONE, ["return"]),
        (np.float32(1), ["return"]),
        (np.ones((2, 2)), ["return"]),
    ],
)
def test_everything_in_a_result_gets_a_name(returned: Any, names: list[str]) -> None:
    """Nested results are taken apart; the names say where each output was."""
    assert [output.name for output in collect(returned)] == names


def test_inputs_and_gradients_are_outputs() -> None:
    """What a launch wrote in place is named after the input."""
    outputs = collect(None, [("x", X), ("y", X + 1)], [("x", X)])
    assert [output.name for output in outputs] == ["input x", "input y", "input x.grad"]


@pytest.mark.parametrize(
    "tensor",
    [
        X,
        X.t(),
        X[:, 1:],
        X[:, None].expand(2, 4, 3),
        X[0, 0],
        torch.empty(0, 3),
        X.to(torch.bfloat16),
        X.to(torch.float8_e4m3fn),
        X.to(torch.complex128).t(),
        (X + 1j).conj(),
        (X + 1j).conj().imag,
        X > 2,
        X.clone().requires_grad_() * 2,
        torch.nn.Parameter(X),
        torch.inference_mode()(lambda: X * 2)(),
        torch.tensor([float("nan"), -0.0]),
    ],
)
def test_bytes_are_the_elements_in_row_major_order(tensor: Tensor) -> None:
    """Gaps and layout do not show in the bytes; shape, dtype and strides are kept beside them."""
    outputs = collect((tensor, X))
    output = outputs[0]
    plain = tensor.detach().resolve_conj().resolve_neg()
    assert bytes(output.tensor.tolist()) == plain.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    assert (output.shape, output.strides) == (tuple(tensor.shape), tensor.stride())
    assert f"torch.{output.dtype}" == str(tensor.dtype)


def test_outputs_are_copies_outside_of_poison() -> None:
    """A later launch may write over what this one returned; our copies are no allocations of the launch."""
    x = X.clone()
    memory = Memory(torch.device("cpu"))
    with memory.poisoned(PATTERN_A):
        (output,) = collect(x)
    x.zero_()
    assert torch.equal(output.tensor.view(torch.float32), X.flatten())
    assert memory._made == 0


@pytest.mark.parametrize(
    ("value", "dtype", "data"),
    [
        (1.5, "Python float", struct.pack("=d", 1.5)),
        (struct.unpack("=d", b"\1\0\0\0\0\0\xf8\x7f")[0], "Python float", b"\1\0\0\0\0\0\xf8\x7f"),
        (-0.0, "Python float", struct.pack("=d", -0.0)),
        (1 << 70, "Python int", b"1180591620717411303424"),
        (True, "Python bool", b"\1"),
        ("ü", "Python str", "ü".encode()),
        (1 - 2j, "Python complex", struct.pack("=dd", 1, -2)),
        (Kind.ONE, "Python int", b"1"),
        (torch.float16, "Python dtype", b"torch.float16"),
    ],
)
def test_scalars_are_outputs(value: Any, dtype: str, data: bytes) -> None:
    """A number is compared by its bits, so that NaN payloads and negative zero count."""
    (output,) = collect(value)
    assert (output.dtype, bytes(output.tensor.tolist())) == (dtype, data)


class Opaque:
    """Something that no launch should return."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: None, "returned None and changed no input: nothing that can be compared"),
        (list, "returned no tensor and changed no input: nothing that can be compared"),
        (lambda: (None, None), "2 outputs without elements"),
        (lambda: torch.empty(0, 3), "1 outputs without elements"),
        (Opaque, r"return is a .*Opaque, which cannot be compared; return tensors"),
        (lambda: [X, {X: 1}.keys()], r"return\[1\] is a builtins.dict_keys"),
        (lambda: {1, 2}, "return is a builtins.set"),
        (X.to_sparse, "return is a sparse coo tensor"),
        (lambda: (X, X.to_sparse_csr()), r"return\[1\] is a sparse csr tensor"),
        (lambda: torch.nested.nested_tensor([X, X[:1]], layout=torch.jagged), "return is a nested tensor"),
        (lambda: torch.quantize_per_tensor(X, 1.0, 0, torch.qint8), "return is a quantised tensor"),
        (lambda: X.to("meta"), "return is a meta tensor"),
        (lambda: np.array(["text"]), "return is a numpy array of <U4, which torch does not know"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(prototype|beta state|quantized):UserWarning")
def test_what_cannot_be_compared_is_refused(make: Callable[[], Any], message: str) -> None:
    """No output passes in silence: what cannot be compared says what it is."""
    returned = make()
    with pytest.raises(InputError, match=message):
        collect(returned)


def test_a_tensor_without_bytes_of_its_own_is_refused() -> None:
    """A wrapper subclass has no storage to compare."""

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls: type, inner: Tensor) -> Tensor:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise NotImplementedError

    with pytest.raises(InputError, match=r"return is a Wrapper .* tensor"):
        collect(Wrapper(X))


def test_objects_of_triton_are_no_outputs() -> None:
    """A launch that ends in `kernel[grid](...)` returns the compiled kernel."""
    compiled = type("CompiledKernel", (), {"__module__": "triton.compiler.compiler"})()
    assert [output.name for output in collect((compiled, X))] == ["return[1]"]
    with pytest.raises(InputError, match="nothing that can be compared"):
        collect(compiled)


def test_digest_tells_every_part() -> None:
    """Names, shapes, dtypes, strides and bytes all count; order of a mapping and the object itself do not."""
    different = [
        collect(X),
        collect((X,)),
        collect(X.view(3, 2)),
        collect(X.t().contiguous().t()),
        collect(X.view(torch.int32)),
        collect(X + 1),
        collect((X, X)),
        collect(1),
        collect("1"),
        collect(None, [("x", X)]),
    ]
    digests = [digest(outputs) for outputs in different]
    assert len(set(digests)) == len(digests)
    assert all(item.startswith("sha256:") and len(item) == 71 for item in digests)
    assert digest(collect({"a": X, "b": 1})) == digest(collect({"b": 1, "a": X.clone()}))


def test_messages_carry_the_bytes() -> None:
    """Fixtures of hand-written tests see what was compared."""
    first, second, third = to_messages(collect((X.t(), 7, "")))
    assert (first.name, first.shape, first.dtype) == ("return[0]", (3, 2), "float32")
    assert first.data == X.t().contiguous().numpy().tobytes()
    assert (second.dtype, second.data, third.data) == ("Python int", b"7", b"")


def test_bytes_outside_of_a_returned_view_are_kept() -> None:
    """Padding of a returned storage can be compared; elements of any returned view are not padding."""
    base = torch.arange(1, 13, dtype=torch.uint8).view(3, 4)
    (view,) = collect(base[:, :3])
    assert view.outside is not None
    assert view.outside.tolist() == [0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0, 12]
    first, second = collect((base[:, :2], base[1]))
    assert first.outside is not None
    assert first.outside.tolist() == [0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 11, 12]
    assert second.outside is None
    (wide,) = collect(torch.arange(1, 5, dtype=torch.int16)[1].expand(3))
    assert wide.outside is not None
    assert wide.outside.tolist() == [1, 0, 0, 0, 3, 0, 4, 0]


@pytest.mark.parametrize("tensor", [X, X.t(), X.view(1, 6)[:, :, None], X[0, 0].clone(), torch.empty(0)])
def test_a_storage_full_of_elements_has_no_outside(tensor: Tensor) -> None:
    """The usual result costs no second copy."""
    assert collect((tensor.clone(memory_format=torch.preserve_format), X))[0].outside is None
