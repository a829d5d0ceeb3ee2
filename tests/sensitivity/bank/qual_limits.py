"""Crashes, hangs and limits; the table of expectations says what each candidate must get."""

from limits import (
    _asserting,
    _copy,
    _copy_rows,
    _matmul,
    _pruned_copy,
    asserting_copy,
    copy,
    copy_by_tuple_grid,
    copy_rows,
    host_fault,
    matmul,
    pruned_copy,
)

from pytest_kernelqual import Case, Config, grid, kernel_spec

# What takes a device process with it gets a spec and a short limit of its own, so that workers share them out.
SHORT_S = 6


@kernel_spec(
    kernel=_copy,
    candidates=grid(FAULT=["none", "static_assert", "no_such_function", "not_a_power_of_two"]),
    cases=[Case(n=301)],
)
def refused(case, seeded):
    """Do not compile."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(kernel=_copy, candidates=grid(FAULT=["far_past_end"]), cases=[Case(n=301)])
def far_writes(case, seeded):
    """Write far beyond the guards."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(kernel=_copy, candidates=grid(FAULT=["far_read"]), cases=[Case(n=301)])
def far_reads(case, seeded):
    """Read far beyond the guards."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(
    kernel=_copy,
    candidates=grid(FAULT=["wrong_for_256"], BLOCK=[16, 32, 64, 128, 256, 512]),
    cases=[Case(n=301)],
)
def one_of_six(case, seeded):
    """Crash with one config of six."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(kernel=_copy, candidates=grid(FAULT=["trap"]), cases=[Case(n=301)])
def traps(case, seeded):
    """Execute a trap instruction."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(kernel=_asserting, candidates=grid(BLOCK=[32, 64, 128]), cases=[Case(n=320)])
def device_asserts(case, seeded):
    """Fail an assertion on the device."""
    x = seeded.normal((case.n,), name="x")
    return lambda: asserting_copy(x)


@kernel_spec(kernel=_copy, candidates=grid(FAULT=["endless_loop", "none"]), cases=[Case(n=301)], run_timeout_s=SHORT_S)
def endless_kernels(case, seeded):
    """Never come back from the device."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(candidates=grid(FAULT=["endless"]), cases=[Case(n=40)], run_timeout_s=SHORT_S)
def endless_hosts(case, seeded):
    """Never come back from host code."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: host_fault(x, config["FAULT"] if config else None)


@kernel_spec(candidates=grid(FAULT=["first_attempt"]), cases=[Case(n=40)])
def chances(case, seeded):
    """Crash on one attempt of several."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: host_fault(x, config["FAULT"] if config else None)


@kernel_spec(candidates=grid(FAULT=["abort", "none"]), cases=[Case(n=40)])
def aborts(case, seeded):
    """Abort in host code."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: host_fault(x, config["FAULT"] if config else None)


@kernel_spec(candidates=grid(FAULT=["exit"]), cases=[Case(n=40)])
def exits(case, seeded):
    """Leave the process."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: host_fault(x, config["FAULT"] if config else None)


@kernel_spec(
    candidates=grid(FAULT=["none", "raises", "host_memory", "device_memory", "tensor_memory"]), cases=[Case(n=40)]
)
def raising(case, seeded):
    """Raise in host code, or want more memory than there is."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: host_fault(x, config["FAULT"] if config else None)


def _matrices(case, seeded):
    # Small whole numbers, so that no order of additions rounds.
    return [seeded.randint(-2, 3, (case.n, case.n), dtype="bfloat16", name=name) for name in "ab"]


@kernel_spec(
    kernel=_matmul,
    candidates=[
        Config(num_warps=4),
        Config(num_warps=3),
        Config(num_warps=64),
        Config(BLOCK_M=256, BLOCK_N=256, BLOCK_K=128, num_stages=5),
        Config(BLOCK_M=64, num_warps=4, num_stages=4),
    ],
    cases=[Case(n=512, interpreter={"n": 256})],
)
def resources(case, seeded):
    """Need more threads or shared memory than there are."""
    a, b = _matrices(case, seeded)
    return lambda: matmul(a, b)


@kernel_spec(
    kernel=_matmul,
    candidates=[Config(BLOCK_M=256, BLOCK_N=256, BLOCK_K=64, num_warps=1)],
    cases=[Case(n=256)],
    compile_timeout_s=8,
)
def endless_compiles(case, seeded):
    """Compile for minutes."""
    a, b = _matrices(case, seeded)
    return lambda: matmul(a, b)


@kernel_spec(
    kernel=_copy_rows, candidates=grid(AXIS=["x", "y"]), cases=[Case(rows=70_000, cols=5, interpreter={"rows": 20})]
)
def refused_launches(case, seeded):
    """Ask for a larger grid than there can be."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: copy_rows(x)


@kernel_spec(kernel=_copy, candidates=grid(BLOCK=[64, 32], num_warps=[2]), cases=[Case(n=301)])
def tuple_grids(case, seeded):
    """Change a block that the grid does not follow."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_by_tuple_grid(x)


@kernel_spec(kernel=_pruned_copy, cases=[Case(n=301)])
def pruned(case, seeded):
    """Have a config that production prunes."""
    x = seeded.normal((case.n,), name="x")
    return lambda: pruned_copy(x)
