"""Values, types and forms; the table of expectations says what each candidate must get."""

import torch
from values import (
    Scale,
    _copy_long,
    _copy_strided,
    _dropout,
    _gather,
    _map,
    _narrow,
    _scale,
    answer,
    copy,
    copy_long,
    copy_strided,
    dropout,
    gather,
    narrow,
)

from pytest_kernelqual import Case, grid, kernel_spec

SPECIAL = (float("inf"), -float("inf"), float("nan"), -0.0, 0.0, 1e-40, -1e-45)


@kernel_spec(
    kernel=_map,
    candidates=grid(
        FAULT=[
            "none", "sign_of_zero", "nan_payload", "nan_to_zero", "infinity_to_largest", "denormal_to_zero", "one_bit",
        ]
    ),
    cases=[Case(n=301)],
)  # fmt: skip
def special_values(case, seeded):
    """Treat zeros, NaNs, infinities and denormals as equal numbers."""
    x = seeded.normal((case.n,), name="x")
    with torch.no_grad():
        x[20 : 20 + len(SPECIAL)] = torch.tensor(SPECIAL)
    return lambda: copy(x)


@kernel_spec(kernel=_narrow, candidates=grid(FAULT=["none", "truncates", "rounds_twice"]), cases=[Case(n=4000)])
def roundings(case, seeded):
    """Round to bfloat16 in another way."""
    x = seeded.normal((case.n,), name="x")
    return lambda: narrow(x)


@kernel_spec(
    kernel=_gather,
    candidates=grid(FAULT=["none", "index_16_bits", "product_32_bits"]),
    cases=[Case(n=200, table=70_000)],
)
def wide_indices(case, seeded):
    """Hold an index, or a byte offset, in too few bits."""
    x = seeded.normal((case.table,), name="x")
    index = seeded.randint(65_536, case.table, (case.n,), name="index")
    return lambda: gather(x, index)


@kernel_spec(
    kernel=_copy_long,
    candidates=grid(FAULT=["none", "offset_32_bits"]),
    cases=[Case(n=(1 << 31) + 10_000, interpreter={"n": 20_000})],
    seeds=1,
    repeats=2,
    profiles=(),
)
def long_tensors(case, seeded):
    """Wrap int32 offsets around beyond 2**31 elements."""
    x = seeded.bernoulli((case.n,), dtype="int8", name="x")
    return lambda: copy_long(x)


@kernel_spec(
    kernel=_copy_strided,
    candidates=grid(FAULT=["none", "takes_x_for_contiguous", "swaps_strides"]),
    cases=[Case(rows=20, cols=30)],
)
def strided_inputs(case, seeded):
    """Ignore strides."""
    x = seeded.normal((case.rows, case.cols), layout="column_major", name="x")
    return lambda: copy_strided(x)


@kernel_spec(
    kernel=_dropout, candidates=grid(FAULT=["none", "counts_within_tile", "one_tile_apart"]), cases=[Case(n=301)]
)
def dropouts(case, seeded):
    """Draw random numbers by place in the tile."""
    x = seeded.normal((case.n,), name="x")
    return lambda: dropout(x, 1234)


@kernel_spec(kernel=_scale, candidates=grid(FACTOR=[3.0, 2.5]), cases=[Case(n=100)])
def gradients(case, seeded):
    """Give a wrong gradient behind a right forward pass."""
    x = seeded.normal((case.n,), name="x", requires_grad=True)

    def launch():
        y = Scale.apply(x)
        y.sum().backward()
        return y

    return launch


@kernel_spec(
    candidates=grid(
        FAULT=[
            "none", "dtype", "shape", "strides", "one_more", "none_instead", "number_instead", "torch_random",
            "python_random", "clock",
        ]
    ),
    cases=[Case(n=40)],
)  # fmt: skip
def forms(case, seeded):
    """Give the values in another form, or with random numbers."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: answer(x, config["FAULT"] if config else "none")
