"""Kernels that must not be flagged."""

import torch
from sound_kernels import (
    _collatz,
    _copy_even,
    _copy_special,
    _copy_with_halo,
    _count,
    _dropout,
    _early,
    _largest,
    _matmul,
    _positional,
    _scale_,
    _split_sums,
    _twice,
    collatz,
    copy_by_large_grid,
    copy_even,
    copy_special,
    copy_with_halo,
    count,
    dropout,
    largest,
    matmul,
    persistent,
    positional,
    scale_,
    split_sums,
    twice,
)

from pytest_kernelqual import Case, grid, kernel_spec

BLOCKS = grid(BLOCK=[32, 128], num_warps=[1, 4])
SPECIAL = (float("inf"), -float("inf"), float("nan"), -float("nan"), -0.0, 0.0, 1e-40, -1e-45, 3.4e38)


@kernel_spec(kernel=_count, candidates=BLOCKS, cases=[Case(n=1001)])
def integer_atomics(case, seeded):
    """Add, compare and combine integers in any order."""
    x = seeded.randint(0, 16, (case.n,), dtype="int32", name="x")
    return lambda: count(x)


@kernel_spec(kernel=_copy_with_halo, candidates=BLOCKS, cases=[Case(n=301)])
def equal_overlaps(case, seeded):
    """Write the same value from two programs."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_with_halo(x)


@kernel_spec(kernel=_scale_, candidates=BLOCKS, cases=[Case(n=301)])
def in_place(case, seeded):
    """Change the input, and return it."""
    x = seeded.normal((case.n,), name="x")
    return lambda: scale_(x)


@kernel_spec(kernel=_twice, candidates=BLOCKS, cases=[Case(n=301)])
def reads_own_output(case, seeded):
    """Read the output after it was written."""
    x = seeded.normal((case.n,), name="x")
    return lambda: twice(x)


@kernel_spec(kernel=_split_sums, candidates=grid(PARTS=[1, 2, 7], num_warps=[1, 4]), cases=[Case(n=3000)])
def split_into_zeros(case, seeded):
    """Add parts atomically to a buffer that starts at zero."""
    x = seeded.randint(-8, 8, (case.n,), dtype="float32", name="x")
    return lambda: split_sums(x)


@kernel_spec(kernel=_dropout, candidates=BLOCKS, cases=[Case(n=301)])
def seeded_dropout(case, seeded):
    """Draw random numbers from a seed and the place of an element."""
    x = seeded.normal((case.n,), name="x")
    return lambda: dropout(x, 1234)


@kernel_spec(kernel=_copy_even, candidates=BLOCKS, cases=[Case(n=320), Case(n=301)])
def right_heuristic(case, seeded):
    """Derive from BLOCK whether masks are needed."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_even(x)


@kernel_spec(kernel=_positional, candidates=grid(BLOCK=[32, 128], SIGN=[-1]), cases=[Case(n=301)])
def scalars_between_tensors(case, seeded):
    """Pass scalars and meta-parameters by position between tensors."""
    x = seeded.normal((case.n,), name="x")
    return lambda: positional(x, 2.5, 1)


@kernel_spec(kernel=_copy_special, candidates=BLOCKS, cases=[Case(n=301)])
def special_values_kept(case, seeded):
    """Keep NaN payloads, infinities, denormals and the sign of zero."""
    x = seeded.normal((case.n,), name="x")
    with torch.no_grad():
        x[7 : 7 + len(SPECIAL)] = torch.tensor(SPECIAL)
        x.view(torch.int32)[40:44] = torch.tensor([0x7FC01234, -0x400001, 0x7F812345, 0x7FFFFFFF], dtype=torch.int32)
    return lambda: copy_special(x)


@kernel_spec(kernel=_early, candidates=BLOCKS, cases=[Case(n=301)])
def large_grids(case, seeded):
    """Return early from programs without work."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_by_large_grid(x)


@kernel_spec(candidates=grid(PROGRAMS=[1, 3, 16]), cases=[Case(n=301)])
def persistent_programs(case, seeded):
    """Share tiles among programs."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: persistent(x, config)


@kernel_spec(kernel=_collatz, candidates=grid(BLOCK=[16, 64]), cases=[Case(n=50)])
def data_dependent_loops(case, seeded):
    """Loop as long as the data of a tile says."""
    x = seeded.randint(1, 10, (case.n,), dtype="int32", name="x")
    return lambda: collatz(x)


@kernel_spec(
    kernel=_largest, candidates=BLOCKS, cases=[Case(n=1001)], grid_independent=("BLOCK",)
)  # fmt: skip
def order_free_maximum(case, seeded):
    """Find a maximum in any order."""
    x = seeded.normal((case.n,), name="x")
    return lambda: largest(x)


@kernel_spec(
    kernel=_matmul, candidates=grid(BLOCK_K=[32, 64], num_warps=[1, 4]), cases=[Case(m=17, n=20, k=100)],
    grid_independent=("BLOCK_K",),
)  # fmt: skip
def order_free_products(case, seeded):
    """Add integer products in any order."""
    a = seeded.randint(-128, 128, (case.m, case.k), dtype="int8", name="a")
    b = seeded.randint(-128, 128, (case.k, case.n), dtype="int8", name="b")
    return lambda: matmul(a, b)
