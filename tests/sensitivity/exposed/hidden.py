"""Kernels that are right on normal inputs under every config, and wrong on others under some."""

import torch
import triton
import triton.language as tl


@triton.jit
def _map(x, y, n, OP: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside, other=0.0)
    if OP == "rounded":  # half to even, as production has it
        result = tl.floor(value + 0.5) if FAULT == "half_up" else (value + 12582912.0) - 12582912.0
    elif OP == "magnitude":
        result = tl.sqrt_rn(value * value) if FAULT == "squares" else tl.abs(value)
    elif FAULT == "flushes_denormals":
        result = tl.where(tl.abs(value) < 1.17549435e-38, value * 0.0, value)
    elif FAULT == "loses_sign_of_zero":
        result = value + 0.0
    elif FAULT == "saturates":
        result = tl.where(tl.abs(value) > 3.0e38, 3.0e38, value)
    elif FAULT == "loses_payload":
        result = tl.where(tl.abs(value) <= float("inf"), value, float("nan"))
    else:
        result = value
    tl.store(y + offset, result, mask=inside)


def mapped(x, op="copy"):
    """Return op of each element."""
    y = torch.empty_like(x)
    n = x.numel()
    _map[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, OP=op, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _rows(x, y, cols, stride, OP: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    offset = tl.arange(0, BLOCK)
    inside = offset < cols
    if FAULT == "ignores_stride":
        x += row * cols
    elif FAULT == "int32":  # beyond 2**31 elements the product wraps
        x += row * stride
    else:
        x += row.to(tl.int64) * stride
    if FAULT == "rounds_address":
        x = (x.to(tl.int64) // 8 * 8).to(tl.pointer_type(tl.float32))
    if OP == "maximum":
        value = tl.load(x + offset, mask=inside, other=0.0 if FAULT == "pads_with_zero" else float("-inf"))
        result = tl.max(value, 0)
    elif OP == "position":
        value = tl.load(x + offset, mask=inside, other=float("-inf"))
        largest = value == tl.max(value, 0)
        if FAULT == "last_of_ties":
            result = tl.max(tl.where(largest, offset, -1), 0)
        else:
            result = tl.min(tl.where(largest, offset, BLOCK), 0)
    elif OP == "span":
        value = tl.load(x + offset, mask=inside, other=float("inf"))
        least = tl.min(value, 0)
        span = tl.max(tl.where(inside, value, float("-inf")), 0) - least
        # No element is below the least one: this adds nothing, but for NaN = inf * 0 of padding lanes.
        below = (value - least) * span
        below = tl.where(below > 0.0, 0.0, below)
        if FAULT != "keeps_padding":
            below = tl.where(inside, below, 0.0)
        result = span + tl.sum(below, 0)
    elif OP == "empty_rows":
        value = tl.load(x + offset, mask=inside, other=0.0)
        total = tl.sum(tl.abs(value), 0)
        if FAULT == "asks_first_element":
            first = tl.sum(tl.where(offset == 0, value, 0.0), 0)
            total = tl.where(first == 0.0, 0.0, total)
        result = total
    elif OP == "total":
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
        if FAULT == "other_order":
            even = tl.sum(tl.where(offset % 2 == 0, value, 0.0), 0)
            result = even + tl.sum(tl.where(offset % 2 == 1, value, 0.0), 0)
        else:
            left = tl.sum(tl.where(offset < BLOCK // 2, value, 0.0), 0)
            result = left + tl.sum(tl.where(offset >= BLOCK // 2, value, 0.0), 0)
    else:
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
        result = tl.sum(value * value, 0)
        if FAULT == "narrow_accumulator":  # of float16, but for its rounding
            result = tl.where(result > 65504.0, float("inf"), result)
    tl.store(y + row, result)


def rows(x, op, dtype=None):
    """Return op of each row."""
    count, cols = x.shape
    y = torch.empty((count,), dtype=dtype or torch.float32, device=x.device)
    _rows[(count,)](x, y, cols, x.stride(0), OP=op, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _scatter(values, index, out, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(values + offset, mask=inside, other=0)
    place = tl.load(index + offset, mask=inside, other=0)
    if FAULT == "reads_then_writes":
        tl.store(out + place, tl.load(out + place, mask=inside) + value, mask=inside)
    else:
        tl.atomic_add(out + place, value, mask=inside)


def scattered(values, index, size):
    """Return the sums of values by index."""
    out = torch.zeros((size,), dtype=values.dtype, device=values.device)
    n = index.numel()
    _scatter[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](values, index, out, n, BLOCK=64, FAULT="none")
    return out


@triton.jit
def _offsets(index, y, n, OP: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    place = tl.load(index + offset, mask=inside, other=0)
    if OP == "row_ends":
        # Beyond 2**31 for the last row alone.
        wide = place if FAULT == "int32" else place.to(tl.int64)
        tl.store(y + offset, (wide + 1) * 2048, mask=inside)
    else:
        after = tl.load(index + offset + 1, mask=offset + 1 < n, other=0)
        steps = after - place if OP == "ascents" else place - after
        count = tl.sum(tl.where((offset + 1 < n) & (steps > 0), 1, 0), 0)
        if FAULT == "at_least_one":
            count = tl.maximum(count, 1)
        tl.store(y + tl.program_id(0), count)


def offsets(index, op):
    """Return the end of each row's place in memory, or how often an index is above, or below, the one before."""
    n = index.numel()
    y = torch.empty((n if op == "row_ends" else 1,), dtype=torch.int64, device=index.device)
    _offsets[(1,)](index, y, n, OP=op, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _persistent(x, y, count, cols, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    inside = offset < cols
    last = tl.minimum(count, 2 * PROGRAMS) if FAULT == "two_rounds" else count
    for row in range(tl.program_id(0), last, PROGRAMS):
        tl.store(y + row * cols + offset, tl.load(x + row * cols + offset, mask=inside), mask=inside)


def persistent(x):
    """Return a copy of x, made by four programs."""
    y = torch.empty_like(x)
    _persistent[(4,)](x, y, *x.shape, PROGRAMS=4, BLOCK=16, FAULT="none")
    return y


@triton.jit
def _tiles(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    count = (n + BLOCK - 2) // BLOCK if FAULT == "forgets_one" else tl.cdiv(n, BLOCK)
    for tile in range(count):
        offset = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + offset, tl.load(x + offset, mask=offset < n), mask=offset < n)


def tiles(x):
    """Return a copy of x, made by one program."""
    y = torch.empty_like(x)
    _tiles[(1,)](x, y, x.numel(), BLOCK=64, FAULT="none")
    return y
