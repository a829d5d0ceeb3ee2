"""Memory; the table of expectations says what each candidate must get."""

from storage import (
    _accumulate,
    _copy_into,
    _double_,
    _histogram,
    _shift,
    accumulate,
    add_neighbour_,
    add_parts,
    copy_into_cached,
    double_,
    histogram,
    padded_copy,
    picked,
    scaled_by_cached_table,
    total,
)

from pytest_kernelqual import Case, Config, grid, kernel_spec


@kernel_spec(
    kernel=_accumulate,
    candidates=grid(
        FAULT=["none", "reads_output", "adds_to_output", "largest_with_output", "keeps_output_where_negative"]
    ),
    cases=[Case(n=301)],
)
def unwritten_outputs(case, seeded):
    """Read the output before it is written, or write a part of it."""
    x = seeded.normal((case.n,), name="x")
    return lambda: accumulate(x)


@kernel_spec(candidates=grid(BLOCK=[32, 64]), cases=[Case(n=256)])
def dirty_workspace(case, seeded):
    """Leave half of the workspace as it was."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: total(x, config["BLOCK"] if config else None)


@kernel_spec(candidates=grid(PARTS=[1, 4]), cases=[Case(n=1000)])
def atomics(case, seeded):
    """Add atomically to a buffer that does not start at zero."""
    x = seeded.randint(0, 100, (case.n,), dtype="int32", name="x")
    return lambda config: add_parts(x, config["PARTS"] if config else 1)


@kernel_spec(
    kernel=_histogram,
    candidates=[*grid(BLOCK=[32, 128]), *grid(FAULT=["counts_padding", "loses_updates"])],
    cases=[Case(n=1001)],
)
def histograms(case, seeded):
    """Count padding lanes, or lose updates of one address."""
    x = seeded.randint(0, 16, (case.n,), dtype="int32", name="x")
    return lambda: histogram(x)


@kernel_spec(kernel=_shift, candidates=grid(BLOCK=[512, 64]), cases=[Case(n=300)])
def aliased_neighbours(case, seeded):
    """Read through an output that aliases the input what another program overwrites."""
    x = seeded.normal((case.n,), name="x")
    return lambda: add_neighbour_(x)


@kernel_spec(
    kernel=_double_,
    candidates=[
        Config(BLOCK=64, STEP=64),
        Config(BLOCK=32, STEP=32),
        Config(BLOCK=64, STEP=32),
        Config(BLOCK=32, STEP=64),
    ],
    cases=[Case(n=300)],
)
def overlapping_in_place(case, seeded):
    """Double elements of two programs twice, or those between them never."""
    x = seeded.normal((case.n,), name="x")
    return lambda: double_(x)


@kernel_spec(kernel=_copy_into, candidates=grid(FAULT=["none", "writes_beyond_view"]), cases=[Case(n=100)])
def returned_views(case, seeded):
    """Write into a returned storage, outside of the view that is returned."""
    x = seeded.normal((case.n,), name="x")
    return lambda: padded_copy(x)


@kernel_spec(candidates=grid(FAULT=["none", "changes_input", "view_of_all", "sorts_input"]), cases=[Case(n=40)])
def undeclared_inputs(case, seeded):
    """Change an input that the fixed launch leaves alone, or return a view in place of a tensor."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: picked(x, config["FAULT"] if config else None)


@kernel_spec(candidates=grid(FAULT=["none", "half", "adds"]), cases=[Case(n=301), Case(n=302)])
def cached_buffers(case, seeded):
    """Keep a buffer that still holds the fixed launch's result: what a candidate leaves out must show."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: copy_into_cached(x, config["FAULT"] if config else None)


@kernel_spec(candidates=grid(FAULT=["none", "spoils_table", "spoils_afterwards", "none_again"]), cases=[Case(n=301)])
def cached_tables(case, seeded):
    """Spoil a table that is kept: the next launch would find it so."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: scaled_by_cached_table(x, config["FAULT"] if config else None)
