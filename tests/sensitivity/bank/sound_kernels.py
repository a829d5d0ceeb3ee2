"""Kernels that are right under every config, though they look as if they were not."""

import torch
import triton
import triton.language as tl


def tiles(meta):
    """Return the grid of a kernel over n elements."""
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


@triton.jit
def _count(x, counts, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside, other=0)
    tl.atomic_add(counts + value, 1, mask=inside)
    tl.atomic_max(counts + 16 + offset * 0, value, mask=inside)
    tl.atomic_xor(counts + 17 + offset * 0, value, mask=inside)


def count(x):
    """Return how often each number below 16 occurs, the largest one, and the exclusive or of all."""
    counts = torch.zeros((18,), dtype=torch.int32, device=x.device)
    _count[tiles](x, counts, x.numel(), BLOCK=64)
    return counts


@triton.jit
def _copy_with_halo(x, y, n, BLOCK: tl.constexpr):
    # Each program writes eight elements of the next tile too, with the values that the next one writes.
    start = tl.program_id(0) * BLOCK
    for part in tl.static_range(2):
        offset = start + part * 8 + tl.arange(0, BLOCK)
        tl.store(y + offset, tl.load(x + offset, mask=offset < n) + 1.0, mask=offset < n)


def copy_with_halo(x):
    """Return x + 1."""
    y = torch.empty_like(x)
    _copy_with_halo[tiles](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def _scale_(x, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offset, tl.load(x + offset, mask=offset < n) * 3.0, mask=offset < n)


def scale_(x):
    """Multiply x by three in place, and return it."""
    _scale_[tiles](x, x.numel(), BLOCK=64)
    return x


@triton.jit
def _twice(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    tl.store(y + offset, tl.load(x + offset, mask=inside), mask=inside)
    tl.debug_barrier()
    tl.store(y + offset, tl.load(y + offset, mask=inside) * 2.0, mask=inside)


def twice(x):
    """Return 2 x, by way of the output."""
    y = torch.empty_like(x)
    _twice[tiles](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def _split_sums(x, y, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(part * BLOCK, n, PARTS * BLOCK):
        offset = start + tl.arange(0, BLOCK)
        total += tl.load(x + offset, mask=offset < n, other=0.0)
    tl.atomic_add(y + tl.arange(0, BLOCK), total)


def split_sums(x):
    """Return 64 sums over whole numbers, which floats add without rounding, into a buffer of zeros."""
    y = torch.zeros((64,), dtype=torch.float32, device=x.device)
    _split_sums[lambda meta: (meta["PARTS"],)](x, y, x.numel(), PARTS=2, BLOCK=64)
    return y


@triton.jit
def _dropout(x, y, n, seed, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, offset) > 0.25
    tl.store(y + offset, tl.where(keep, tl.load(x + offset, mask=offset < n), 0.0), mask=offset < n)


def dropout(x, seed):
    """Return x with a quarter of its elements dropped, whichever tile they are in."""
    y = torch.empty_like(x)
    _dropout[tiles](x, y, x.numel(), seed, BLOCK=64)
    return y


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def _copy_even(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + offset, tl.load(x + offset))
    else:
        tl.store(y + offset, tl.load(x + offset, mask=offset < n), mask=offset < n)


def copy_even(x):
    """Return a copy of x, without masks where they are not needed."""
    y = torch.empty_like(x)
    _copy_even[tiles](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def _positional(x, n, factor, BLOCK: tl.constexpr, y, shift, SIGN: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n) * factor + shift
    tl.store(y + offset, -value if SIGN < 0 else value, mask=offset < n)


def positional(x, factor, shift):
    """Return - factor x - shift; scalars and meta-parameters stand between tensors."""
    y = torch.empty_like(x)
    _positional[tiles](x, x.numel(), factor, 64, y, shift, -1)
    return y


@triton.jit
def _copy_special(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset, mask=offset < n, other=float("nan")), mask=offset < n)


def copy_special(x):
    """Return a copy of x; padding lanes hold NaN and are dropped."""
    y = torch.empty_like(x)
    _copy_special[tiles](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def _early(x, y, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    if start >= n:
        return
    offset = start + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset, mask=offset < n), mask=offset < n)


def copy_by_large_grid(x):
    """Return a copy of x; most programs find nothing to do."""
    y = torch.empty_like(x)
    _early[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]) + 20,)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def _persistent(x, y, n, programs, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), programs):
        offset = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + offset, tl.load(x + offset, mask=offset < n) + 1.0, mask=offset < n)


def persistent(x, config=None):
    """Return x + 1; as many programs as the config says share the tiles."""
    y = torch.empty_like(x)
    programs = config["PROGRAMS"] if config else 4
    _persistent[(programs,)](x, y, x.numel(), programs, BLOCK=32)
    return y


@triton.jit
def _collatz(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n, other=1)
    steps = tl.zeros((BLOCK,), tl.int32)
    while tl.max(value, 0) > 1:
        odd = value % 2 == 1
        steps += (value > 1).to(tl.int32)
        value = tl.where(value > 1, tl.where(odd, 3 * value + 1, value // 2), value)
    tl.store(y + offset, steps, mask=offset < n)


def collatz(x):
    """Return the number of Collatz steps; how long a tile loops depends on its data."""
    y = torch.empty_like(x)
    _collatz[tiles](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def _largest(x, y, n, BLOCK: tl.constexpr):
    best = float("-inf")
    for start in range(0, n, BLOCK):
        offset = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.max(tl.load(x + offset, mask=offset < n, other=float("-inf")), 0))
    tl.store(y, best)


def largest(x):
    """Return the largest element, in any order."""
    y = torch.empty((1,), dtype=x.dtype, device=x.device)
    _largest[(1,)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def _matmul(a, b, c, m, n, k, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
    cols = tl.program_id(1) * 16 + tl.arange(0, 16)[None, :]
    total = tl.zeros((16, 16), tl.int32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows * k + inner[None, :], mask=(rows < m) & (inner[None, :] < k), other=0)
        right = tl.load(b + inner[:, None] * n + cols, mask=(inner[:, None] < k) & (cols < n), other=0)
        total += tl.dot(left, right)
    tl.store(c + rows * n + cols, total, mask=(rows < m) & (cols < n))


def matmul(a, b):
    """Return a @ b of int8 matrices in int32, which no order of additions changes."""
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=torch.int32, device=a.device)
    _matmul[(triton.cdiv(m, 16), triton.cdiv(n, 16))](a, b, c, m, n, k, BLOCK_K=32)
    return c
