"""Profiles: what values they have, that they are the same bytes everywhere, and that declared bounds hold."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_inputs import CPU, DEVICES, FLOATS, INTEGERS, SHAPES, padded_strides, row_major_bytes

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.profiles import (
    FIRST,
    FLOAT_PROFILES,
    INTEGER_PROFILES,
    ORDERS,
    PROFILES,
    InputSet,
    input_sets,
)
from pytest_kernelqual.on_device import streams
from pytest_kernelqual.on_device.inputs import SeededInputs
from pytest_kernelqual.on_device.layouts import Exposure

FINITE_PROFILES = [name for name in FLOAT_PROFILES if name != "nonfinite"]
IEEE = ["float8_e5m2", "float16", "bfloat16", "float32", "float64"]


def make(profile: str, stream: str = "test", device: torch.device = CPU) -> SeededInputs:
    """Return inputs of a profile, in memory without guard bands."""

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str) -> torch.Tensor:
        del name
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    exposure = Exposure(profile=profile)
    return SeededInputs(stream=stream, device=device, interpreted=True, allocate=allocate, exposure=exposure)


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as float64, which holds each of them."""
    return (tensor.to(torch.float32) if tensor.dtype.itemsize == 1 else tensor).to(torch.float64)


def test_every_profile_has_its_place_in_the_order() -> None:
    """The order is of all profiles, each once."""
    assert sorted(PROFILES) == sorted({*FLOAT_PROFILES, *INTEGER_PROFILES})


# --- the same bytes everywhere ----------------------------------------------------------------------------------------


@given(st.data(), SHAPES, st.sampled_from(FLOAT_PROFILES), st.sampled_from(FLOATS))
@settings(max_examples=150, deadline=None)
def test_values_do_not_depend_on_strides(data: st.DataObject, shape: tuple[int, ...], profile: str, dtype: str) -> None:
    """Memory order decides nothing, for whole tensors and bounded ones."""
    strides = data.draw(padded_strides(shape))
    plain, strided = make(profile), make(profile)
    assert row_major_bytes(plain.normal(shape, dtype=dtype)) == row_major_bytes(
        strided.normal(shape, dtype=dtype, strides=strides)
    )
    assert row_major_bytes(plain.uniform(shape, dtype=dtype)) == row_major_bytes(
        strided.uniform(shape, dtype=dtype, strides=strides)
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_values_do_not_depend_on_the_parts_they_are_drawn_in(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor that is drawn by parts reads as one sequence."""

    def drawn() -> list[bytes]:
        seeded = make(profile)
        tensors = [seeded.normal((9, 11)), seeded.normal((9, 6), dtype="complex128"), seeded.randint(0, 99, (50,))]
        return [row_major_bytes(tensor) for tensor in tensors]

    whole = drawn()
    monkeypatch.setattr("pytest_kernelqual.on_device.snapshots._CHUNK", {"cpu": 7})
    assert drawn() == whole


@given(
    st.sampled_from([2**31, 2**41]).flatmap(
        lambda size: st.tuples(st.just(size), st.lists(st.integers(0, size - 1), min_size=1, max_size=20))
    ),
    st.integers(0, 3),
)
def test_words_at_places_are_those_in_sequence(within: tuple[int, list[int]], lane: int) -> None:
    """Both ways to ask for an element's word give the same one, beyond 2**32 elements too."""
    key = streams.Key("places", 3)
    size, places = within
    found = streams.words_at(key, lane, torch.tensor(places), size=size).tolist()
    assert found == [int(streams.words(key, lane, place, 1, CPU).item()) for place in places]


GOLDEN = {
    "cancelling": "5034d8ff454838a6",
    "mixed": "44cc2a43dd98155a",
    "extremes": "2ea7623901e1a303",
    "exponents": "73f761d85e76bbf4",
    "repeats": "31413258a40af72c",
    "constant": "7e260763e057a248",
    "equal_rows": "89b7fe1029004456",
    "ties": "f03d857b6fc13b5a",
    "denormals": "246afde443bb3ae6",
    "boundaries": "71c3fec954f71437",
    "one_hot": "4062dcd7f6f19358",
    "sorted": "3fea73b52173e39a",
    "reversed": "9a3b55482d51cccd",
    "nonfinite": "b2b9ac8964f75f5a",
}


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_golden_digests_pin_every_profile_for_ever(device: torch.device) -> None:
    """A change here changes the inputs of every suite that was ever qualified."""
    found = {}
    for profile in PROFILES:
        seeded = make(profile, "golden", device)
        for number, dtype in enumerate(FLOATS):
            seeded.normal((48, 33), dtype=dtype, name=f"normal {number}")
            seeded.uniform((48, 33), dtype=dtype, low=-1.5, high=0.75, name=f"uniform {number}")
        for number, dtype in enumerate(INTEGERS):
            seeded.randint(3, 101, (48, 33), dtype=dtype, name=f"randint {number}")
        seeded.permutation(500, name="permutation")
        seeded.freeze(lambda: None)
        found[profile] = seeded.digest().removeprefix("sha256:")[:16]
    assert found == GOLDEN


# --- bounds -----------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(FLOAT_PROFILES),
    st.sampled_from(FLOATS),
    st.floats(-200, 200, width=16),
    st.floats(-200, 200, width=16),
)
@settings(max_examples=300, deadline=None)
def test_declared_bounds_hold_under_every_profile(profile: str, dtype: str, one: float, other: float) -> None:
    """What the builder says of a tensor's values is true of every input set; -0.0 is not in [0, 1)."""
    low, high = sorted((one, other))
    try:
        tensor = make(profile).uniform((5, 40), dtype=dtype, low=low, high=high)
    except InputError:  # nothing of the dtype is in between
        return
    values = exact(tensor)
    assert bool(((values >= low) & (values < high)).all())
    if low >= 0:
        assert not bool(torch.signbit(values).any())


@given(st.sampled_from(INTEGER_PROFILES), st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**62))
def test_integers_are_within_their_bounds(profile: str, low: int, span: int) -> None:
    """Least and largest are reached where a profile is about them."""
    high = min(low + span, 2**63)
    values = make(profile).randint(low, high, (60,)).tolist()
    assert all(low <= value < high for value in values)
    if profile == "extremes":
        assert set(values) == {low, high - 1}


# --- what they are ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "dtype"), [*itertools.product(FINITE_PROFILES, FLOATS)])
def test_values_are_finite_and_differ_from_normal_ones(profile: str, dtype: str) -> None:
    """Only `nonfinite` has other values, and each profile is one."""
    seeded, plain = make(profile), make("normal")
    tensor = seeded.normal((16, 40), dtype=dtype, name="x")
    assert bool(exact(tensor).isfinite().all())
    assert (seeded.exposed, plain.exposed) == (["x"], [])
    assert row_major_bytes(tensor) != row_major_bytes(plain.normal((16, 40), dtype=dtype))


@pytest.mark.parametrize("shape", [(32, 128), (33, 131), (1, 77)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_cancelling_sums_are_next_to_nothing(dtype: str, shape: tuple[int, int]) -> None:
    """The sum is a small part of what was added, of an odd number too; so is a product with a later tensor."""
    seeded = make("cancelling")
    x, y = exact(seeded.normal(shape, dtype=dtype)), exact(seeded.normal(shape[1:], dtype=dtype))
    for axis in (0, 1) if shape[0] > 1 else (1,):
        # What an odd number leaves over is small, and a row of such elements cancels but for one.
        assert float((x.sum(axis).abs() / x.abs().sum(axis)).max()) < 1.1 / (shape[axis] - 1)
    assert float(((x @ y).abs() / (x.abs() @ y.abs())).max()) < 1e-2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_exponents_are_spread_evenly(dtype: str) -> None:
    """From the least normal one to the largest of the profile, no quarter has much more than another."""
    _, exponents = torch.frexp(exact(make("exponents").normal((64, 64), dtype=dtype)))
    info = torch.finfo(getattr(torch, dtype))
    least, most = math.frexp(info.smallest_normal)[1], (math.frexp(info.max)[1] - 1) * 7 // 16 + 1
    counts = torch.histc(exponents.to(torch.float64), 4, least, most)
    assert int(exponents.max()) == most
    assert float(counts.min()) > 0.7 * float(counts.max())


@pytest.mark.parametrize("dtype", FLOATS)
def test_constants_and_rows(dtype: str) -> None:
    """One value everywhere, one in each row, one that is not zero in each row."""
    constant = exact(make("constant").normal((16, 40), dtype=dtype))
    rows = exact(make("equal_rows").normal((16, 40), dtype=dtype))
    hot = exact(make("one_hot").normal((16, 40), dtype=dtype))
    assert len(set(constant.flatten().tolist())) == 1
    assert bool((rows == rows[:, :1]).all())
    assert len(set(rows[:, 0].tolist())) > 8
    assert hot.count_nonzero(1).tolist() == [1] * 16
    assert len(set(hot.nonzero()[:, 1].tolist())) > 4


@pytest.mark.parametrize("dtype", IEEE)
def test_denormals_are_zeros_denormal_and_least_normal_numbers(dtype: str) -> None:
    """All three kinds are there, and both zeros."""
    values = exact(make("denormals").normal((64, 64), dtype=dtype))
    least = torch.finfo(getattr(torch, dtype)).smallest_normal
    size = values.abs()
    assert float(size.max()) < 2 * least
    assert bool((size >= least).any())
    assert bool(((size > 0) & (size < least)).any())
    assert set(torch.signbit(values[values == 0]).tolist()) == {True, False}


@pytest.mark.parametrize("dtype", IEEE)
def test_boundaries_have_the_ends_of_the_ranges(dtype: str) -> None:
    """Largest values, the least denormal, both zeros, one and its neighbours; some rows are without the largest."""
    info = torch.finfo(getattr(torch, dtype))
    values = exact(make("boundaries").normal((64, 64), dtype=dtype))
    there = set(values.flatten().tolist())
    assert {info.max, -info.max, info.smallest_normal * info.eps, 0.0, 1.0, 1.0 + info.eps, 1.0 - info.eps / 2} <= there
    assert set(torch.signbit(values[values == 0]).tolist()) == {True, False}
    tame = (values.abs() < info.max / 4).all(1)
    assert 0 < int(tame.sum()) < 64


@pytest.mark.parametrize(
    ("dtype", "narrower"), [("float32", "bfloat16"), ("float32", "float16"), ("float16", "float8_e5m2")]
)
def test_ties_are_half_way_between_values_of_a_narrower_dtype(dtype: str, narrower: str) -> None:
    """And between whole numbers, which both kinds of rounding show."""
    tensor = make("ties").normal((64, 64), dtype=dtype)
    values = exact(tensor)
    near = exact(tensor.to(getattr(torch, narrower)))
    step = (2.0 ** (torch.frexp(values)[1] - 1).to(torch.float64)) * torch.finfo(getattr(torch, narrower)).eps
    assert int(((values - near).abs() == step / 2).sum()) > 100
    assert int((values.abs() % 1.0 == 0.5).sum()) > 100


@pytest.mark.parametrize("dtype", FLOATS)
def test_nonfinite_values_are_in_some_rows_alone(dtype: str) -> None:
    """Infinities where the dtype has them, NaN of several payloads, and rows of plain values."""
    seeded = make("nonfinite")
    tensor = seeded.normal((64, 64), dtype=dtype)
    values = exact(tensor)
    if "fnuz" in dtype:
        assert seeded.exposed == []
        return
    finite = values.isfinite()
    assert 0 < int(finite.all(1).sum()) < 64
    assert bool(values.isinf().any()) is (dtype in IEEE)
    bits = tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])
    assert len(set(bits[values.isnan()].tolist())) >= min(tensor.element_size() ** 3, 64)
    assert seeded.exposed == ["input0"]


@pytest.mark.parametrize("shape", [(48, 40), (480,), (2, 240)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_mixed_has_rows_or_parts_of_most_kinds(dtype: str, shape: tuple[int, ...]) -> None:
    """Denormals, ties, rows of one value and of one element: each in as many elements as the others."""
    info = torch.finfo(getattr(torch, dtype))
    values = exact(make("mixed").normal(shape, dtype=dtype)).flatten()
    size = values.abs()
    same = values[1:] == values[:-1]
    sixth = values.numel() // 6
    assert int(((size > 0) & (size < info.smallest_normal)).sum()) > sixth // 4
    assert int((size % 1.0 == 0.5).sum()) > sixth // 16
    assert int((same & (values[1:] != 0)).sum()) > sixth // 2
    assert int((same & (values[1:] == 0)).sum()) > sixth // 2
    assert float(size.max()) < info.max / 2
    assert len(set(values.tolist())) > sixth


def test_orders_and_repeats_of_integers() -> None:
    """Sorted, reversed, and three values."""
    ascending = make("sorted").randint(-50, 50, (90,)).tolist()
    descending = make("reversed").randint(-50, 50, (90,)).tolist()
    assert ascending == sorted(descending) == descending[::-1]
    assert len(set(make("repeats").randint(0, 10**6, (90,)).tolist())) == 3
    mixed = set(make("mixed").randint(0, 10**6, (90,)).tolist())
    assert {0, 10**6 - 1} < mixed
    assert len(mixed) == 5
    assert [make(order).permutation(5).tolist() for order in ORDERS] == [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]


def test_a_tensor_keeps_to_its_own_profile() -> None:
    """What is pinned is the same in every input set, and counts for no profile."""
    plain = make("normal")
    pinned = [make(profile) for profile in ("normal", "boundaries")]
    expected = row_major_bytes(plain.normal((8, 8)))
    assert [row_major_bytes(seeded.normal((8, 8), profile="normal")) for seeded in pinned] == [expected] * 2
    hot = [row_major_bytes(seeded.normal((8, 8), profile="one_hot")) for seeded in pinned]
    assert hot[0] == hot[1]
    assert [seeded.exposed for seeded in pinned] == [[], []]


@pytest.mark.parametrize(
    ("method", "profile"),
    [("normal", "extremes"), ("randint", "cancelling"), ("full", "one_hot"), ("uniform", "nomral")],
)
def test_a_profile_that_a_tensor_cannot_keep_to_is_an_error(method: str, profile: str) -> None:
    """The message names those that it can."""
    seeded = make("normal")
    arguments = {"randint": (0, 9, (4,)), "full": ((4,), 1.0)}.get(method, ((4,),))
    with pytest.raises(
        InputError, match=rf"profile='{profile}' is none that seeded\.{method} can keep to; use 'normal'"
    ):
        getattr(seeded, method)(*arguments, profile=profile)


# --- input sets -------------------------------------------------------------------------------------------------------


def test_input_sets_run_in_one_order_however_they_are_named() -> None:
    """First normal, then the profiles, the layouts, and further seeds."""
    named = input_sets("interpreter", 3, ("ties", "cancelling", "normal"), ["misaligned", "more_rows", "strided"])
    assert [str(one) for one in named] == [
        "normal/0", "cancelling/0", "ties/0", "strided/0", "misaligned/0", "normal/1", "normal/2",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["cuda", "hip", "interpreter"])
def test_all_and_none(kind: str) -> None:
    """`all` leaves out what only a spec can allow."""
    assert input_sets(kind, 1, ("none",), []) == (FIRST,)
    everything = input_sets(kind, 1, ("all",), [])
    assert everything == (FIRST, *(InputSet(name) for name in PROFILES if name != "nonfinite"))
    assert len(input_sets(kind, 1, ("nonfinite", "all"), [])) == len(everything) + 1
