"""Seeded inputs between launches: what is put back, what is told of a change, and what cannot be."""

import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.on_device.inputs import SeededInputs

DEVICES = [torch.device("cpu"), *([torch.device("cuda", 0)] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES, ids=str)
def seeded(request: pytest.FixtureRequest) -> SeededInputs:
    """Return inputs each of which lies within a larger storage, as guard-banded memory does."""
    device: torch.device = request.param

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str) -> torch.Tensor:
        del name
        reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        storage = torch.full(((reach + 16) * dtype.itemsize,), 0xA5, dtype=torch.uint8, device=device)
        empty = torch.empty(0, dtype=dtype, device=device)
        return empty.set_(storage.untyped_storage(), 8, shape, strides)

    return SeededInputs(stream="restore", device=device, interpreted=False, allocate=allocate)


def storage_bytes(tensor: torch.Tensor) -> list[int]:
    """Return all bytes of the storage of a tensor, guard and gaps included."""
    raw: list[int] = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage()).tolist()
    return raw


def gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient that a tensor has."""
    assert tensor.grad is not None
    return tensor.grad


def names(seeded: SeededInputs) -> list[str]:
    """Return the names of the changed inputs."""
    return [item.name for item in seeded.changed()]


@pytest.mark.parametrize("dtype", ["bool", "uint16", "float8_e5m2", "bfloat16", "float32", "float64", "complex64"])
def test_restore_puts_back_whole_storages(seeded: SeededInputs, dtype: str) -> None:
    """Elements, gaps between rows and guards around them all come back."""
    x = seeded.full((3, 5), 1, dtype=dtype, strides=(7, 1))
    seeded.freeze(lambda: x)
    pristine = storage_bytes(x)
    raw = torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage())
    raw.bitwise_xor_(0xFF)
    assert storage_bytes(x) != pristine
    seeded.restore()
    assert storage_bytes(x) == pristine


def test_restore_of_unchanged_inputs_puts_back_what_no_input_addresses(seeded: SeededInputs) -> None:
    """A launch may have written there, which `changed` does not see."""
    base = torch.arange(8.0)
    seeded.adopt(base[::2], name="every_other")
    whole = seeded.normal((8,), dtype="float32", name="whole")
    seeded.freeze(lambda: None)
    base[1] = 100.0
    assert not seeded.changed()
    seeded.restore(unchanged=True)
    assert base[1] == 1.0
    drawn = whole.clone()
    whole[0] += 1.0
    seeded.restore()
    assert torch.equal(whole, drawn)


def test_the_builder_may_change_inputs_before_it_returns(seeded: SeededInputs) -> None:
    """What counts as pristine is what the builder left, adopted tensors included."""
    x, y = seeded.normal((4,)), torch.zeros(4, device=seeded.device)
    seeded.adopt(y, name="y")
    x[1], y[2] = 5.0, 7.0
    seeded.freeze(lambda: x + y)
    x.zero_()
    y.zero_()
    seeded.restore()
    assert (x[1].item(), y[2].item()) == (5.0, 7.0)


def test_changed_names_inputs_whose_elements_differ(seeded: SeededInputs) -> None:
    """A write to gaps or guards is another module's finding; the sign of zero and NaN are changes of bytes."""
    gap = seeded.zeros((3, 5), strides=(7, 1), name="gap")
    zero = seeded.zeros((3,), dtype="float16", name="zero")
    nan = seeded.full((3,), float("nan"), name="nan")
    same = seeded.normal((3, 4), layout="column_major", name="same")
    empty = seeded.normal((0, 4), name="empty")
    double = seeded.ones((2,), dtype="complex128", name="double")
    seeded.freeze(lambda: (gap, zero, nan, same, empty, double))
    assert names(seeded) == []
    gap.as_strided((1,), (1,), gap.storage_offset() + 6).fill_(1)
    assert names(seeded) == []
    gap[2, 4] = 1
    zero[1] = -0.0
    nan.view(torch.int32)[0] += 1
    same.copy_(same.clone())
    torch.view_as_real(double)[1, 1] = 1e-300
    assert names(seeded) == ["gap", "zero", "nan", "double"]
    seeded.restore()
    assert names(seeded) == []


def test_changed_offers_the_pristine_values(seeded: SeededInputs) -> None:
    """The caller can say what an input was before the launch."""
    x = seeded.normal((3, 4), strides=(6, 1))
    before = x.clone()
    seeded.freeze(lambda: x)
    x.zero_()
    (item,) = seeded.changed()
    assert item.tensor is x
    assert torch.equal(item.pristine, before)
    assert item.pristine.stride() == (6, 1)


def test_restore_drops_gradients_and_keeps_leaves(seeded: SeededInputs) -> None:
    """A backward pass gathers the same gradient after every restore."""
    x = seeded.normal((4, 4), requires_grad=True)
    weight = seeded.normal((4,), requires_grad=True)
    seeded.freeze(lambda: x)
    gradients = []
    for _ in range(2):
        seeded.restore()
        assert x.grad is None
        torch.autograd.backward((x * weight).sum())
        gradients.append(gradient(x).clone())
    assert torch.equal(*gradients)
    assert x.is_leaf
    assert x.requires_grad


def test_restore_does_not_trip_a_graph_that_saved_an_input(seeded: SeededInputs) -> None:
    """The output of an earlier launch can be differentiated after a restore."""
    x = seeded.normal((4,), requires_grad=True)
    seeded.freeze(lambda: x)
    seeded.restore()
    loss = (x * x).sum()
    version = x._version
    seeded.restore()
    torch.autograd.backward(loss)
    assert x._version == version
    assert torch.equal(gradient(x), 2 * x.detach())


def _transpose(x: torch.Tensor) -> None:
    x.t_()


def _set_data(x: torch.Tensor) -> None:
    x.data = torch.zeros(2, 2, dtype=torch.float64, device=x.device)


def _shrink(x: torch.Tensor) -> None:
    x.resize_(2, 2)


def _follow(x: torch.Tensor) -> None:
    x.mul_(torch.ones((), requires_grad=True, device=x.device))


def _require_grad(x: torch.Tensor) -> None:
    x.requires_grad_()


@pytest.mark.parametrize("change", [_transpose, _set_data, _shrink, _follow, _require_grad])
def test_restore_repairs_metadata(seeded: SeededInputs, change: Callable[[torch.Tensor], None]) -> None:
    """A tensor that was re-pointed, reshaped or drawn into autograd is the input that it was."""
    x = seeded.normal((3, 4))
    before, address = x.clone(), x.data_ptr()
    seeded.freeze(lambda: x)
    change(x)
    seeded.restore()
    assert (x.data_ptr(), x.shape, x.stride(), x.dtype) == (address, (3, 4), (4, 1), torch.float32)
    assert torch.equal(x, before)
    assert x.is_leaf
    assert not x.requires_grad


def test_a_reshaped_or_repointed_input_is_changed(seeded: SeededInputs) -> None:
    """Other shape, dtype or bytes under the same tensor are outputs of the launch."""
    x, y, z = seeded.ones((2, 3), name="x"), seeded.ones((2, 2), name="y"), seeded.ones((2,), name="z")
    seeded.freeze(lambda: (x, y, z))
    _transpose(x)
    y.data = y.data.double()
    z.data = torch.ones_like(z)
    assert names(seeded) == ["x", "y"]


@pytest.mark.parametrize("size", [0, 10_000])
def test_memory_that_moved_is_an_error(seeded: SeededInputs, size: int) -> None:
    """Bytes that are no longer there cannot be put back; the message names the input and both sizes."""
    x = seeded.normal((3,), name="states")
    frozen_with = x.untyped_storage().nbytes()
    seeded.freeze(lambda: x)
    x.untyped_storage().resize_(size)
    message = f"input 'states': {size} bytes, frozen with {frozen_with}"
    with pytest.raises(InputError, match=message):
        seeded.restore()
    with pytest.raises(InputError, match=message):
        seeded.changed()


def test_a_view_drawn_into_autograd_is_an_error(seeded: SeededInputs) -> None:
    """What torch cannot undo is said, not passed over."""
    x = torch.zeros(10, device=seeded.device)[2:5]
    seeded.adopt(x, name="slice")
    seeded.freeze(lambda: x)
    _follow(x)
    with pytest.raises(InputError, match=r"input 'slice', a view .* adopt its \.clone\(\)"):
        seeded.restore()


def test_memory_given_as_a_view_is_no_view_to_autograd() -> None:
    """Guard-banded memory may be cut from a larger tensor; its input can still be taken out of a graph."""

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str) -> torch.Tensor:
        del name
        return torch.zeros(100, dtype=dtype).as_strided(shape, strides, 7)

    seeded = SeededInputs(stream="view", device=torch.device("cpu"), interpreted=True, allocate=allocate)
    x = seeded.normal((4,), strides=(2,))
    assert (x.storage_offset(), x.stride(), x.untyped_storage().nbytes()) == (7, (2,), 400)
    seeded.freeze(lambda: x)
    _follow(x)
    seeded.restore()
    assert x.is_leaf


def test_inputs_that_share_a_storage_are_restored_together(seeded: SeededInputs) -> None:
    """A parameter made of an input is an input of its own: its gradient is dropped as well."""
    base = seeded.normal((4,), name="base")
    parameter = torch.nn.Parameter(base)
    seeded.freeze(lambda: parameter * 2)
    torch.autograd.backward((parameter * 2).sum())
    with torch.no_grad():
        parameter.zero_()
    assert names(seeded) == ["base", "parameter"]
    seeded.restore()
    assert parameter.grad is None
    assert names(seeded) == []


def test_restore_resets_every_source_of_random_numbers(seeded: SeededInputs) -> None:
    """Each launch draws the same numbers from torch, the device, Python and numpy."""
    seeded.freeze(lambda: None)

    def draw() -> list[float]:
        device = torch.rand((), device=seeded.device).item()
        return [torch.rand(()).item(), device, random.random(), float(np.random.rand())]  # noqa: NPY002, S311 - those reset

    seeded.restore()
    first = draw()
    assert draw() != first
    seeded.restore()
    assert draw() == first


def test_descriptions_are_those_of_pristine_inputs(seeded: SeededInputs) -> None:
    """A launch that changes an input does not change its digest; strides change the digest of all, not of the bytes."""
    x = seeded.normal((3, 4), dtype="bfloat16", strides=(6, 1))
    y = seeded.adopt(torch.tensor(2.0), name="scale")
    seeded.freeze(lambda: x * y)
    x.zero_()
    first, second = seeded.descriptions()
    assert (first.name, first.shape, first.dtype, first.strides) == ("input0", (3, 4), "bfloat16", (6, 1))
    assert (second.name, second.shape, second.dtype, second.strides) == ("scale", (), "float32", ())
    # SHA-256 of the four bytes of 2.0
    assert second.digest == "sha256:d88c86f15bbea365d658ad95a81d45367c465f7af6f7264fb077f01747ddc77d"
    assert seeded.digest().startswith("sha256:")


def _allocate(
    device: torch.device, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str
) -> torch.Tensor:
    del name
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)


def test_digest_tells_names_and_strides_apart(seeded: SeededInputs) -> None:
    """Equal bytes under another name or in another layout are other inputs."""
    digests = set()
    for name, layout in (("x", "row_major"), ("y", "row_major"), ("x", "column_major")):
        inputs = SeededInputs(
            stream="s",
            device=seeded.device,
            interpreted=False,
            allocate=partial(_allocate, seeded.device),
        )
        inputs.normal((3, 4), name=name, layout=layout)
        inputs.freeze(lambda: None)
        digests.add(inputs.digest())
    assert len(digests) == 3


def test_zero_size_inputs_live_a_whole_life(seeded: SeededInputs) -> None:
    """Nothing to restore is no error."""
    x = seeded.normal((0, 3), requires_grad=True)
    n = seeded.adopt(torch.empty(0, device=seeded.device))
    seeded.freeze(lambda: (x, n))
    seeded.restore()
    assert names(seeded) == []
    assert [info.shape for info in seeded.descriptions()] == [(0, 3), (0,)]


@pytest.mark.parametrize("what", ["restore", "changed", "descriptions", "digest"])
def test_nothing_is_told_before_inputs_are_frozen(seeded: SeededInputs, what: str) -> None:
    """Without a snapshot there is nothing to compare with."""
    with pytest.raises(InputError, match=r"before freeze\(launch\)"):
        getattr(seeded, what)()


def test_a_launch_cannot_make_inputs(seeded: SeededInputs) -> None:
    """Inputs made by a launch would be new at every launch."""
    x = seeded.normal((2,))
    seeded.freeze(lambda: x)
    makes: list[Callable[[], torch.Tensor]] = [
        lambda: seeded.normal((2,)),
        lambda: seeded.zeros((2,)),
        lambda: seeded.adopt(torch.zeros(2)),
    ]
    for make in makes:
        with pytest.raises(InputError, match="make all of them in the builder"):
            make()
