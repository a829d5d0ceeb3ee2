"""One spec for each profile or probe that shows a fault; what must be found stands in test_exposed.py."""

import torch
from hidden import (
    _map,
    _offsets,
    _persistent,
    _rows,
    _scatter,
    _tiles,
    mapped,
    offsets,
    persistent,
    rows,
    scattered,
    tiles,
)

from pytest_kernelqual import Case, grid, kernel_spec


def _faults(*names):
    return grid(FAULT=["none", *names])


def _map_spec(name, fault, profile, op="copy"):
    def build(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda: mapped(x, op)

    build.__name__ = name
    return kernel_spec(kernel=_map, candidates=_faults(fault), cases=[Case(n=300)], profiles=(profile,))(build)


denormals = _map_spec("denormals", "flushes_denormals", "denormals")
zeros = _map_spec("zeros", "loses_sign_of_zero", "denormals")
largest = _map_spec("largest", "saturates", "boundaries")
payloads = _map_spec("payloads", "loses_payload", "nonfinite")
ties = _map_spec("ties", "half_up", "ties", "rounded")
magnitudes = _map_spec("magnitudes", "squares", "exponents", "magnitude")


def _row_spec(name, fault, profile, op, dtype="float32", out=None):
    def build(case, seeded):
        x = seeded.normal((case.rows, case.cols), dtype=dtype, name="x")
        return lambda: rows(x, op, out)

    build.__name__ = name
    return kernel_spec(
        kernel=_rows,
        candidates=_faults(fault),
        grid_independent=("FAULT",),
        cases=[Case(rows=6, cols=40)],
        profiles=(profile,),
    )(build)


overflow = _row_spec("overflow", "narrow_accumulator", "constant", "squares", "float16")
padded_maximum = _row_spec("padded_maximum", "pads_with_zero", "equal_rows", "maximum")
padding_nan = _row_spec("padding_nan", "keeps_padding", "equal_rows", "span")
tied_positions = _row_spec("tied_positions", "last_of_ties", "equal_rows", "position", out=torch.int32)
empty_rows = _row_spec("empty_rows", "asks_first_element", "one_hot", "empty_rows")
order = _row_spec("order", "other_order", "cancelling", "total", "bfloat16", torch.bfloat16)


@kernel_spec(kernel=_scatter, candidates=_faults("reads_then_writes"), cases=[Case(n=40)], profiles=("repeats",))
def repeats(case, seeded):
    """Two elements of one tile go to the same place."""
    values = seeded.randint(1, 100, (case.n,), dtype="int32", name="values", profile="normal")
    index = seeded.randint(0, 1 << 16, (case.n,), name="index")
    return lambda: scattered(values, index, 1 << 16)


def _offset_spec(name, fault, profile, op):
    def build(case, seeded):
        index = seeded.randint(0, 1 << 20, (case.n,), dtype="int32", name="index")
        return lambda: offsets(index, op)

    build.__name__ = name
    return kernel_spec(
        kernel=_offsets,
        candidates=_faults(fault),
        grid_independent=("FAULT",),
        cases=[Case(n=40)],
        profiles=(profile,),
    )(build)


wrapping = _offset_spec("wrapping", "int32", "extremes", "row_ends")
descents = _offset_spec("descents", "at_least_one", "sorted", "descents")
ascents = _offset_spec("ascents", "at_least_one", "reversed", "ascents")


@kernel_spec(
    kernel=_rows,
    candidates=_faults("ignores_stride"),
    grid_independent=("FAULT",),
    cases=[Case(rows=6, cols=40)],
    profiles=(),
    probes=("strided",),
)
def strides(case, seeded):
    """Rows that do not follow one another."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: rows(x, "maximum")


@kernel_spec(
    kernel=_rows,
    candidates=_faults("int32"),
    grid_independent=("FAULT",),
    cases=[Case(rows=6, cols=40)],
    profiles=(),
    probes=("beyond_2_31",),
)
def far_rows(case, seeded):
    """A row farther away than 32 bits can tell."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: rows(x, "maximum")


@kernel_spec(
    kernel=_rows,
    candidates=_faults("rounds_address"),
    grid_independent=("FAULT",),
    cases=[Case(rows=6, cols=40)],
    profiles=(),
    probes={"misaligned": "x"},
)
def addresses(case, seeded):
    """A tensor that does not begin where memory does."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: rows(x, "position", torch.int32)


@kernel_spec(
    kernel=_persistent,
    candidates=_faults("two_rounds"),
    grid_independent=("FAULT",),
    cases=[Case(rows=8, cols=10)],
    profiles=(),
    probes={"more_rows": "rows"},
)
def rounds(case, seeded):
    """More rows than two rounds of all programs take."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: persistent(x)


@kernel_spec(
    kernel=_tiles,
    candidates=_faults("forgets_one"),
    grid_independent=("FAULT",),
    cases=[Case(n=300)],
    profiles=(),
    probes={"last_tile_of_one": "n"},
)
def last_tiles(case, seeded):
    """A last tile of a single element."""
    x = seeded.normal((case.n,), name="x")
    return lambda: tiles(x)
