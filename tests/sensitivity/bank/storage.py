"""Kernels that read, write or keep memory that they should not."""

import torch
import triton
import triton.language as tl


@triton.jit
def _accumulate(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside, other=0.0)
    if FAULT == "reads_output":
        value += 0.0 * tl.load(y + offset, mask=inside, other=0.0)
    elif FAULT == "adds_to_output":
        value += tl.load(y + offset, mask=inside, other=0.0)
    elif FAULT == "largest_with_output":
        value = tl.maximum(value, tl.load(y + offset, mask=inside, other=0.0))
    elif FAULT == "keeps_output_where_negative":
        inside = inside & (value >= 0.0)
    tl.store(y + offset, value, mask=inside)


def accumulate(x):
    """Return a copy of x, written into memory that nobody has initialised."""
    y = torch.empty_like(x)
    n = x.numel()
    _accumulate[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _partial_sums(x, partial, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offset = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + pid, tl.sum(tl.load(x + offset, mask=offset < n, other=0), 0))


def total(x, block=None):
    """Return the sum of x; the workspace is sized for the smallest block and assumed to be zero."""
    n = x.numel()
    partial = torch.empty((triton.cdiv(n, 32),), dtype=x.dtype, device=x.device)
    _partial_sums[(triton.cdiv(n, block or 32),)](x, partial, n, BLOCK=block or 32)
    return partial.sum()


@triton.jit
def _add_parts(x, y, n, parts, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(part * BLOCK, n, parts * BLOCK):
        offset = start + tl.arange(0, BLOCK)
        total += tl.load(x + offset, mask=offset < n, other=0)
    if parts == 1:
        tl.store(y + tl.arange(0, BLOCK), total)
    else:
        tl.atomic_add(y + tl.arange(0, BLOCK), total)


def add_parts(x, parts):
    """Return 64 sums over x; only one part may start from memory that nobody has initialised."""
    y = torch.empty((64,), dtype=x.dtype, device=x.device)
    _add_parts[(parts,)](x, y, x.numel(), parts, BLOCK=64)
    return y


@triton.jit
def _histogram(x, counts, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    if FAULT == "counts_padding":
        value = tl.load(x + offset, mask=inside, other=0)
        tl.atomic_add(counts + value, 1)
    elif FAULT == "loses_updates":
        value = tl.load(x + offset, mask=inside, other=0)
        tl.store(counts + value, tl.load(counts + value, mask=inside) + 1, mask=inside)
    else:
        value = tl.load(x + offset, mask=inside, other=0)
        tl.atomic_add(counts + value, 1, mask=inside)


def histogram(x):
    """Return how often each number below 16 occurs in x."""
    counts = torch.zeros((16,), dtype=torch.int32, device=x.device)
    n = x.numel()
    _histogram[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, counts, n, BLOCK=64, FAULT="none")
    return counts


@triton.jit
def _shift(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    late = 0.0
    for _ in range(tl.program_id(0) * 20):  # as where programs differ in work
        late += tl.load(x, volatile=True) * 0.0
    before = tl.load(x + offset - 1, mask=inside & (offset > 0), other=0.0) + late
    tl.store(y + offset, tl.load(x + offset, mask=inside) + before, mask=inside)


def add_neighbour_(x):
    """Add to each element the one before it, in place: right only where one tile holds all."""
    n = x.numel()
    _shift[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x, n, BLOCK=triton.next_power_of_2(n), num_warps=1)
    return x


@triton.jit
def _double_(x, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    offset = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    factor = 2.0
    for _ in range(tl.program_id(0) % 2 * 20):
        factor += tl.load(x, volatile=True) * 0.0
    tl.store(x + offset, tl.load(x + offset, mask=offset < n) * factor, mask=offset < n)


def double_(x):
    """Double x in place; programs are STEP elements apart."""
    n = x.numel()
    _double_[lambda meta: (triton.cdiv(n, meta["STEP"]),)](x, n, BLOCK=64, STEP=64)
    return x


@triton.jit
def _copy_into(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    end = n + 3 if FAULT == "writes_beyond_view" else n
    value = tl.load(x + offset, mask=offset < n, other=0.0)
    tl.store(y + offset, value, mask=offset < end)


def padded_copy(x):
    """Return a copy of x that is the start of larger memory."""
    n = x.numel()
    y = torch.empty((n + 20,), dtype=x.dtype, device=x.device)
    _copy_into[lambda meta: (triton.cdiv(n + 3, meta["BLOCK"]),)](x, y, n, BLOCK=64, FAULT="none")
    return y[:n]


def picked(x, fault):
    """Return every other element of x, doubled."""
    if fault == "changes_input":
        x.mul_(2.0)
        return x[::2].clone()
    if fault == "view_of_all":
        return (x * 2.0)[::2]
    if fault == "sorts_input":
        x.copy_(x.sort().values)
    return 2.0 * x[::2]


_outputs = {}


def copy_into_cached(x, fault=None):
    """Return a copy of x in a buffer that is kept from call to call, as many a workspace is."""
    if x.shape not in _outputs:
        _outputs[x.shape] = torch.empty_like(x)
    y = _outputs[x.shape]
    n = x.numel()
    if fault == "half":
        y[: n // 2] = x[: n // 2]
    elif fault == "adds":
        y += x
    else:
        y.copy_(x)
    return y


_tables = {}


def scaled_by_cached_table(x, fault=None):
    """Return x times a table that the first call computes and all others find."""
    if x.shape not in _tables:
        table = torch.empty_like(x)
        table.copy_(torch.arange(x.numel(), device=x.device))
        _tables[x.shape] = table
    if fault == "spoils_afterwards":  # and needs no table itself
        _tables[x.shape].zero_()
        return x * torch.arange(x.numel(), device=x.device)
    y = torch.empty_like(x)
    torch.mul(x, _tables[x.shape], out=y)
    if fault == "spoils_table":
        _tables[x.shape].zero_()
    return y
