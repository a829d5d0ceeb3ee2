"""Memory of earlier launches; the table of expectations says what each candidate must get."""

from state import (
    _add_to,
    _copy,
    _last_adds,
    counted,
    folded,
    last_adds,
    on_side_stream,
    remembered_by_block,
    remembered_copy,
)

from pytest_kernelqual import Case, grid, kernel_spec


@kernel_spec(kernel=_copy, candidates=grid(BLOCK=[32, 128]), cases=[Case(n=301)])
def remembered(case, seeded):
    """Hand out the fixed launch's result: no candidate is ever launched."""
    x = seeded.normal((case.n,), name="x")
    return lambda: remembered_copy(x)


@kernel_spec(candidates=grid(BLOCK=[32, 128]), cases=[Case(n=301)], seeds=2)
def remembered_results(case, seeded):
    """Hand out the result of another input."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: remembered_by_block(x, config["BLOCK"] if config else None)


@kernel_spec(
    candidates=grid(FAULT=["none", "second_call", "every_other_call", "all_but_first"]), cases=[Case(n=40)], repeats=4
)
def calls(case, seeded):
    """Differ from call to call."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: counted(x, config["FAULT"] if config else "fixed")


@kernel_spec(kernel=_add_to, cases=[Case(n=1000)])
def hooks(case, seeded):
    """Clear the output before the launch, nothing, or the input."""
    x = seeded.randint(0, 100, (case.n,), dtype="int32", name="x")
    return lambda: folded(x)


@kernel_spec(
    kernel=_last_adds,
    candidates=grid(FAULT=["none", "counter_left"]),
    cases=[Case(n=1000)],
    grid_independent=("FAULT",),
)
def counters(case, seeded):
    """Leave a counter behind that the next launch starts from."""
    x = seeded.randint(0, 100, (case.n,), dtype="int32", name="x")
    return lambda: last_adds(x)


@kernel_spec(candidates=grid(FAULT=["none", "starts_too_early", "read_too_early"]), cases=[Case(n=100_000)])
def streams(case, seeded):
    """Work beside the current stream without waiting for it, or it for the work."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: on_side_stream(x, config["FAULT"] if config else "none")
