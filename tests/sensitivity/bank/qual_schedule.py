"""Schedules; the table of expectations says what each candidate must get on a GPU, where the faults show."""

from schedule import (
    _add_float,
    _reverse,
    _running_sums,
    _swap_pairs,
    add_float,
    by_shared_memory,
    reverse,
    running_sums,
    swap_pairs,
)

from pytest_kernelqual import Case, grid, kernel_spec


@kernel_spec(
    kernel=_reverse,
    candidates=grid(FAULT=["none", "no_barrier"]),
    cases=[Case(n=1000)],
    grid_independent=("FAULT",),
)
def barriers(case, seeded):
    """Read what another warp has not written yet."""
    x = seeded.normal((case.n,), name="x")
    return lambda: reverse(x)


@kernel_spec(
    kernel=_running_sums,
    candidates=grid(FAULT=["none", "does_not_wait"]),
    cases=[Case(n=16_000, interpreter={"n": 2000})],
    grid_independent=("FAULT",),
)
def waits(case, seeded):
    """Read what another program has not written yet."""
    x = seeded.randint(0, 100, (case.n,), dtype="int32", name="x")
    return lambda: running_sums(x)


@kernel_spec(
    kernel=_add_float,
    candidates=[*grid(BLOCK=[128, 512]), *grid(FAULT=["lost_update"])],
    cases=[Case(n=1 << 18, interpreter={"n": 2000})],
)
def lost_updates(case, seeded):
    """Add to one number from many programs."""
    x = seeded.randint(0, 8, (case.n,), dtype="float32", name="x")
    return lambda: add_float(x)


@kernel_spec(kernel=_swap_pairs, candidates=grid(FAULT=["none", "wrong_hint"]), cases=[Case(n=1024)], run_timeout_s=3)
def hints(case, seeded):
    """Tell the compiler of an alignment that is not there."""
    x = seeded.normal((case.n,), name="x")
    return lambda: swap_pairs(x)


@kernel_spec(candidates=grid(FAULT=["none", "shared_memory_unwritten"]), cases=[Case(n=1024)])
def shared_memory(case, seeded):
    """Read shared memory that holds what another kernel has left."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: by_shared_memory(x, config["FAULT"] if config else "none")
