"""Qualification of the histogram."""

from typing import Any

from histogram import _histogram, histogram

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


# Programs add their counts in any order; integers do not mind.
@kernel_spec(
    kernel=_histogram,
    candidates=grid(BLOCK=[1024, 4096, 8192], num_warps=[4, 8]),
    cases=[
        Case(elements=4_000_000, bins=256, dtype="int32", stride=1, interpreter={"elements": 6000}),
        Case(elements=1_000_003, bins=1000, dtype="int64", stride=1, interpreter={"elements": 5003}),
        Case(elements=250_000, bins=100, dtype="uint8", stride=3, interpreter={"elements": 3000}),
        Case(elements=1, bins=2, dtype="int16", stride=1),
    ],
    key=("bins", "dtype"),
)
def histogram_counts(case: Case, seeded: Seeded) -> Any:
    """Qualify blocks and numbers of warps; some values lie outside the bins."""
    values = seeded.randint(0, case.bins + 5, (case.elements,), dtype=case.dtype, strides=(case.stride,), name="values")
    return lambda: histogram(values, case.bins)
