"""Masks, tiles and grids; the table of expectations says what each candidate must get."""

from masks import (
    _copy,
    _copy_even,
    _copy_in_parts,
    _copy_rows,
    _copy_whole_tiles,
    _row_sums,
    _transpose,
    copy,
    copy_even,
    copy_in_parts,
    copy_rows,
    copy_whole_tiles,
    row_sums,
    transpose,
)

from pytest_kernelqual import Case, Config, grid, kernel_spec

COPY_FAULTS = [
    "none", "dropped_mask", "mask_one_too_long", "mask_one_too_short", "mask_of_whole_tiles", "writes_before_start",
    "even_programs_only", "even_elements_only", "changes_input", "changes_one_element_of_input", "one_element",
]  # fmt: skip


@kernel_spec(kernel=_copy, candidates=grid(FAULT=COPY_FAULTS), cases=[Case(n=301)])
def copies(case, seeded):
    """Mask a copy wrongly."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(kernel=_copy, candidates=grid(BLOCK=[32, 64, 128], FAULT=["wrong_for_128"]), cases=[Case(n=301)])
def one_block(case, seeded):
    """Be wrong for one block size, by one unit in the last place."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(kernel=_copy_whole_tiles, candidates=grid(BLOCK=[32, 64, 128]), cases=[Case(n=320)])
def divisible_rounded_down(case, seeded):
    """Leave the rest out where the block does not divide the size."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_whole_tiles(x, rounded_up=False)


@kernel_spec(kernel=_copy_whole_tiles, candidates=grid(BLOCK=[32, 64, 128]), cases=[Case(n=320)])
def divisible_rounded_up(case, seeded):
    """Write past the end where the block does not divide the size."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_whole_tiles(x, rounded_up=True)


@kernel_spec(kernel=_copy_even, candidates=grid(BLOCK=[32, 64, 128]), cases=[Case(n=320)])
def wrong_heuristic(case, seeded):
    """Take a tile for even that is not."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_even(x)


@kernel_spec(kernel=_copy_in_parts, candidates=grid(PARTS=[1, 2]), cases=[Case(n=512)])
def short_grid(case, seeded):
    """Shorten the grid by a parameter that the kernel does not read."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_in_parts(x)


@kernel_spec(
    kernel=_copy_rows,
    candidates=grid(FAULT=["none", "no_mask"]),
    cases=[Case(rows=5, cols=40, stride=40), Case(rows=5, cols=40, stride=70)],
    grid_independent=("FAULT",),
)
def overhang(case, seeded):
    """Let a tile hang over: past the last row, or into the gap between rows."""
    x = seeded.normal((case.rows, case.cols), strides=(case.stride, 1), name="x")
    return lambda: copy_rows(x, case.stride)


@kernel_spec(
    kernel=_copy_rows,
    candidates=grid(FAULT=["none", "races_into_next_row", "overlaps_row_before"]),
    cases=[Case(rows=4096, cols=40, interpreter={"rows": 5})],
    grid_independent=("FAULT",),
)
def next_rows(case, seeded):
    """Write into a neighbouring row, which another program writes too."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: copy_rows(x, case.cols)


@kernel_spec(
    kernel=_row_sums,
    candidates=grid(FAULT=["none", "no_mask", "mask_one_too_long", "mask_one_too_short"]),
    cases=[Case(rows=5, cols=40)],
    grid_independent=("FAULT",),
)
def loads(case, seeded):
    """Read more or less than a row."""
    x = seeded.randint(1, 100, (case.rows, case.cols), name="x")
    return lambda: row_sums(x)


@kernel_spec(
    kernel=_transpose,
    candidates=[
        Config(FAULT="none"),
        Config(FAULT="none", BLOCK=32),
        Config(FAULT="group_drops_tiles", GROUP=2),
        Config(FAULT="group_drops_tiles", GROUP=3),
        Config(FAULT="swapped_mask"),
    ],
    cases=[Case(rows=44, cols=33)],
)
def tile_orders(case, seeded):
    """Drop tiles when they are taken in another order, or mask one axis by the size of the other."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: transpose(x)
