"""Launches that must not be flagged."""

from sound_launches import (
    _add,
    _copy_rows,
    _fold,
    _increment,
    add,
    aliasing,
    beside,
    by_cached_table,
    by_cached_workspace,
    by_scratch,
    by_workspace_of_config,
    column_major,
    counts_steps,
    empty_part,
    folded,
    increment_,
    middle,
    nested,
    random_offset,
    spaced,
    with_gradients,
)

from pytest_kernelqual import Case, grid, kernel_spec

BLOCKS = grid(BLOCK=[32, 128], num_warps=[1, 4])
CASES = [Case(n=301)]
MATRICES = [Case(rows=7, cols=33)]


def _two(case, seeded):
    return [seeded.normal((case.n,), name=name) for name in "xy"]


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def output_aliases_input(case, seeded):
    """Return the input that was changed, and views of it."""
    x, y = _two(case, seeded)
    return lambda: aliasing(x, y)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def joined_streams(case, seeded):
    """Work on another stream, and wait for it."""
    x, y = _two(case, seeded)
    return lambda: beside(x, y)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def cached_workspace(case, seeded):
    """Keep scratch memory from call to call."""
    x, y = _two(case, seeded)
    return lambda: by_cached_workspace(x, y)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=[*CASES, Case(n=302)])
def cached_table(case, seeded):
    """Keep a table from call to call."""
    x, _ = _two(case, seeded)
    return lambda: by_cached_table(x)


@kernel_spec(candidates=grid(SIZE=[512, 1024, 2048]), cases=CASES)
def workspace_of_config(case, seeded):
    """Keep scratch memory for each config."""
    x, y = _two(case, seeded)
    return lambda config: by_workspace_of_config(x, y, config)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def partly_used_scratch(case, seeded):
    """Leave scratch memory unwritten."""
    x, y = _two(case, seeded)
    return lambda: by_scratch(x, y)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def nested_outputs(case, seeded):
    """Return a dict of a dataclass, lists, None, an empty tensor, flags and complex numbers."""
    x, y = _two(case, seeded)
    return lambda: nested(x, y)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def empty_grids(case, seeded):
    """Launch on an empty grid too."""
    x, y = _two(case, seeded)
    return lambda: empty_part(x, y)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def accumulated_gradients(case, seeded):
    """Leave gradients that were added up."""
    x, y = (seeded.normal((case.n,), name=name, requires_grad=True) for name in "xy")
    return lambda: with_gradients(x, y)


@kernel_spec(kernel=_fold, cases=[Case(n=1000)])
def clearing_hooks(case, seeded):
    """Clear the output in the hook of each config."""
    x = seeded.randint(0, 100, (case.n,), dtype="int32", name="x")
    return lambda: folded(x)


@kernel_spec(kernel=_increment, cases=CASES)
def tuned_in_place(case, seeded):
    """Tune a kernel that works in place."""
    x = seeded.normal((case.n,), name="x")
    return lambda: increment_(x)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def counted_steps(case, seeded):
    """Count the step in place."""
    x = seeded.normal((case.n,), name="x")
    step = seeded.zeros((1,), dtype="int64", name="step")
    return lambda: counts_steps(x, step)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=CASES)
def random_numbers(case, seeded):
    """Draw from generators that every launch finds in one state."""
    x = seeded.normal((case.n,), name="x")
    return lambda: random_offset(x)


@kernel_spec(kernel=_copy_rows, candidates=grid(BLOCK=[16, 32, 64]), cases=MATRICES, grid_independent=("BLOCK",))
def column_major_outputs(case, seeded):
    """Return a matrix that is not contiguous."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: column_major(x)


@kernel_spec(kernel=_copy_rows, candidates=grid(BLOCK=[16, 32, 64]), cases=MATRICES, grid_independent=("BLOCK",))
def spaced_outputs(case, seeded):
    """Leave padding between rows unwritten."""
    x = seeded.normal((case.rows, case.cols), layout="column_major", name="x")
    return lambda: spaced(x)


@kernel_spec(kernel=_copy_rows, candidates=grid(BLOCK=[16, 32, 64]), cases=MATRICES, grid_independent=("BLOCK",))
def views_of_larger_memory(case, seeded):
    """Return a view of memory that is unwritten around it."""
    x = seeded.normal((case.rows, case.cols), strides=(50, 1), name="x")
    return lambda: middle(x)


@kernel_spec(kernel=_add, candidates=BLOCKS, cases=[Case(n=n, dtype="float16") for n in (1, 64, 128, 4096, 4097)])
def up_to_the_guards(case, seeded):
    """Write the first and the last byte of the output, whatever its size."""
    x, y = (seeded.normal((case.n,), dtype=case.dtype, name=name) for name in "xy")
    return lambda: add(x, y)
