"""Faults that only provocation shows, and sound kernels that must not be flagged: `expected.json` tells which."""

import torch
from provoked import (
    _matmul,
    _row_sums,
    _sorted_rows,
    exchange,
    histogram,
    matmul,
    neighbours,
    on_side_stream,
    row_sums,
    shared,
    sorted_rows,
    with_dropout,
)

from pytest_kernelqual import Case, Config, grid, kernel_spec


@kernel_spec(
    candidates=[Config(FAULT=name) for name in ("same", "reads_shared", "copies_shared", "masked_shared")],
    cases=[Case(n=256 * 256)],
)
def leftovers(case, seeded):
    """Shared memory that nobody wrote decides, or does not."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: shared(x, config["FAULT"] if config else "none")


@kernel_spec(candidates=grid(BARRIER=[True, False]), cases=[Case(n=256 * 256)])
def exchanges(case, seeded):
    """Without a barrier, half of the threads read what the launch before left: the right values, as it happens."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: exchange(x, barrier=config["BARRIER"] if config else True)


@kernel_spec(candidates=grid(MODE=["barrier", "hopes"]), cases=[Case(blocks_each=2)], run_timeout_s=20)
def co_resident(case, seeded):
    """Programs that fit on the device at once, as long as nothing else is on it."""
    units = torch.cuda.get_device_properties(seeded.device).multi_processor_count
    flags = seeded.zeros((case.blocks_each * units + 1,), dtype="int32", name="flags")
    return lambda config: neighbours(flags, config["MODE"] if config else "none")


@kernel_spec(
    kernel=_row_sums,
    candidates=grid(num_stages=[1, 2, 3]),
    cases=[Case(rows=64, cols=4096), Case(rows=7, cols=515)],
)
def sums(case, seeded):
    """A reduction through shared memory."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: row_sums(x)


@kernel_spec(kernel=_sorted_rows, candidates=grid(num_stages=[1, 2]), cases=[Case(rows=64, cols=512)])
def sorts(case, seeded):
    """Many exchanges through shared memory."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: sorted_rows(x)


@kernel_spec(
    kernel=_matmul,
    candidates=[
        Config(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=4),
        Config(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=4),  # all shared memory of a block
    ],
    cases=[Case(n=2048)],
)
def products(case, seeded):
    """Blocks that find no room beside the noise."""
    a = seeded.normal((case.n, case.n), dtype="bfloat16", name="a")
    b = seeded.normal((case.n, case.n), dtype="bfloat16", name="b")
    return lambda: matmul(a, b)


@kernel_spec(candidates=grid(BLOCK=[256, 512]), cases=[Case(n=1_000_000)])
def counts(case, seeded):
    """Atomics whose order is free."""
    x = seeded.randint(0, 100, (case.n,), name="x")
    return lambda config: histogram(x, 100, config["BLOCK"] if config else 1024)


@kernel_spec(kernel=_row_sums, candidates=grid(num_stages=[1, 2]), cases=[Case(rows=64, cols=1000)])
def dropped(case, seeded):
    """Random numbers, which provocation must leave alone."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: with_dropout(x, 0.5)


@kernel_spec(kernel=_row_sums, candidates=grid(num_stages=[1, 2]), cases=[Case(rows=64, cols=1000)])
def streamed(case, seeded):
    """A stream of the launch's own."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: on_side_stream(x)
