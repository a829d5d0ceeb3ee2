"""Kernels whose masks, tiles or grids are wrong under some configs."""

import torch
import triton
import triton.language as tl


def tiles(meta):
    """Return the grid of a kernel over n elements."""
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside, other=0.0)
    if FAULT == "dropped_mask":
        tl.store(y + offset, value)
    elif FAULT == "mask_one_too_long":
        tl.store(y + offset, value, mask=offset <= n)
    elif FAULT == "mask_one_too_short":
        tl.store(y + offset, value, mask=offset < n - 1)
    elif FAULT == "mask_of_whole_tiles":
        tl.store(y + offset, value, mask=offset < n // BLOCK * BLOCK)
    elif FAULT == "writes_before_start":
        tl.store(y + offset - 1, value, mask=inside)
        tl.store(y + offset, value, mask=inside)
    elif FAULT == "even_programs_only":
        tl.store(y + offset, value, mask=inside & (offset // BLOCK % 2 == 0))
    elif FAULT == "even_elements_only":
        tl.store(y + offset, value, mask=inside & (offset % 2 == 0))
    elif FAULT == "changes_input":
        tl.store(y + offset, value, mask=inside)
        tl.store(x + offset, value + 1.0, mask=inside)
    elif FAULT == "changes_one_element_of_input":
        tl.store(y + offset, value, mask=inside)
        tl.store(x + offset, value + 1.0, mask=offset == n - 1)
    elif FAULT == "one_element":
        tl.store(y + offset, tl.where(offset == n - 1, value + 1.0, value), mask=inside)
    elif FAULT == "wrong_for_128" and BLOCK == 128:
        tl.store(y + offset, value * 1.0000001, mask=inside)
    else:
        tl.store(y + offset, value, mask=inside)


def copy(x, block=64):
    """Return a copy of x."""
    y = torch.empty_like(x)
    _copy[tiles](x, y, x.numel(), BLOCK=block, FAULT="none")
    return y


@triton.jit
def _copy_whole_tiles(x, y, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset))


def copy_whole_tiles(x, rounded_up):
    """Return a copy of x, right only while the tile divides its size."""
    y = torch.empty_like(x)
    n = x.numel()
    _copy_whole_tiles[
        lambda meta: (triton.cdiv(n, meta["BLOCK"]) if rounded_up else n // meta["BLOCK"],)
    ](x, y, BLOCK=64)  # fmt: skip
    return y


@triton.heuristics({"EVEN": lambda args: args["n"] % 64 == 0})  # whatever BLOCK is
@triton.jit
def _copy_even(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + offset, tl.load(x + offset))
    else:
        tl.store(y + offset, tl.load(x + offset, mask=offset < n), mask=offset < n)


def copy_even(x):
    """Return a copy of x, without masks where its size is a multiple of 64."""
    y = torch.empty_like(x)
    _copy_even[tiles](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def _copy_in_parts(x, y, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset, mask=offset < n), mask=offset < n)


def copy_in_parts(x):
    """Return a copy of x; PARTS shortens the grid and nothing else knows of it."""
    y = torch.empty_like(x)
    n = x.numel()
    _copy_in_parts[lambda meta: (triton.cdiv(n, meta["BLOCK"] * meta["PARTS"]),)](x, y, n, PARTS=1, BLOCK=64)
    return y


@triton.jit
def _copy_rows(x, y, rows, cols, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    offset = tl.arange(0, BLOCK)
    inside = offset < cols
    value = tl.load(x + row * stride + offset, mask=inside, other=0.0)
    if FAULT == "no_mask":
        tl.store(y + row * stride + offset, value)
    elif FAULT == "races_into_next_row":
        # Some programs come later than others, as they do where rows differ in work.
        for _ in range(row % 5):
            value += tl.load(x + row * stride, volatile=True) * 0.0
        tl.store(y + row * stride + offset, value, mask=inside | (offset * 0 + row < rows - 1))
    elif FAULT == "overlaps_row_before":
        tl.store(y + row * stride + offset, value, mask=inside)
        tl.store(y + row * stride + offset - cols, value, mask=(offset == 0) & (offset + row > 0))
    else:
        tl.store(y + row * stride + offset, value, mask=inside)


def copy_rows(x, out_stride):
    """Return a copy of the rows of x with rows that are `out_stride` elements apart."""
    rows, cols = x.shape
    y = torch.empty_strided((rows, cols), (out_stride, 1), dtype=x.dtype, device=x.device)
    _copy_rows[(rows,)](x, y, rows, cols, out_stride, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _row_sums(x, y, cols, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    offset = tl.arange(0, BLOCK)
    if FAULT == "no_mask":
        value = tl.load(x + row * cols + offset)
    elif FAULT == "mask_one_too_long":
        value = tl.load(x + row * cols + offset, mask=offset <= cols, other=0)
    elif FAULT == "mask_one_too_short":
        value = tl.load(x + row * cols + offset, mask=offset < cols - 1, other=0)
    else:
        value = tl.load(x + row * cols + offset, mask=offset < cols, other=0)
    tl.store(y + row, tl.sum(value, 0))


def row_sums(x):
    """Return the sums of the rows of an integer matrix."""
    rows, cols = x.shape
    y = torch.empty((rows,), dtype=x.dtype, device=x.device)
    _row_sums[(rows,)](x, y, cols, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _transpose(x, y, rows, cols, BLOCK: tl.constexpr, GROUP: tl.constexpr, FAULT: tl.constexpr):
    across = tl.cdiv(cols, BLOCK)
    pid = tl.program_id(0)
    down, right = pid // across, pid % across
    if FAULT == "group_drops_tiles":
        # Tiles are taken in groups of rows; the last group is smaller, which is forgotten.
        in_group = pid % (GROUP * across)
        down = pid // (GROUP * across) * GROUP + in_group % GROUP
        right = in_group // GROUP
    row = down * BLOCK + tl.arange(0, BLOCK)[:, None]
    col = right * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (col < cols)
    value = tl.load(x + row * cols + col, mask=inside)
    if FAULT == "swapped_mask":
        inside = (row < cols) & (col < rows)
    tl.store(y + col * rows + row, value, mask=inside)


def transpose(x):
    """Return x transposed."""
    rows, cols = x.shape
    y = torch.empty((cols, rows), dtype=x.dtype, device=x.device)
    _transpose[lambda meta: (triton.cdiv(rows, meta["BLOCK"]) * triton.cdiv(cols, meta["BLOCK"]),)](
        x, y, rows, cols, BLOCK=16, GROUP=2, FAULT="none"
    )
    return y
