"""Products and reductions that are wrong under some configs."""

import torch
import triton
import triton.language as tl


@triton.jit
def _matmul(a, b, c, m, n, k, BLOCK_K: tl.constexpr, FAULT: tl.constexpr, PRECISION: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
    cols = tl.program_id(1) * 16 + tl.arange(0, 16)[None, :]
    total = tl.zeros((16, 16), tl.float32)
    steps = tl.cdiv(k, BLOCK_K)
    if FAULT == "missing_tail":
        steps = k // BLOCK_K
    elif FAULT == "tail_twice":
        steps += 1
    for step in range(steps):
        inner = step * BLOCK_K + tl.arange(0, BLOCK_K)
        if FAULT == "tail_twice":
            inner = tl.minimum(step, tl.cdiv(k, BLOCK_K) - 1) * BLOCK_K + tl.arange(0, BLOCK_K)
        elif FAULT == "wrong_for_32" and BLOCK_K == 32:
            inner = step * 16 + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows * k + inner[None, :], mask=(rows < m) & (inner[None, :] < k), other=0.0)
        right = tl.load(b + inner[:, None] * n + cols, mask=(inner[:, None] < k) & (cols < n), other=0.0)
        total += tl.dot(left, right, input_precision=PRECISION)
        if FAULT == "float16_accumulator":
            total = total.to(tl.float16).to(tl.float32)
        elif FAULT == "bfloat16_accumulator":
            total = total.to(tl.bfloat16).to(tl.float32)
    tl.store(c + rows * n + cols, total, mask=(rows < m) & (cols < n))


def matmul(a, b):
    """Return a @ b in float32."""
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    _matmul[(triton.cdiv(m, 16), triton.cdiv(n, 16))](a, b, c, m, n, k, BLOCK_K=16, FAULT="none", PRECISION="ieee")
    return c


@triton.jit
def _sum_bytes(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, n, BLOCK):
        total += tl.load(x + start + offset, mask=start + offset < n, other=0).to(tl.int32)
        if FAULT == "int8_accumulator":
            total = total.to(tl.int8).to(tl.int32)
    tl.store(y, tl.sum(total, 0))


def sum_bytes(x):
    """Return the sum of int8 numbers."""
    y = torch.empty((1,), dtype=torch.int32, device=x.device)
    _sum_bytes[(1,)](x, y, x.numel(), BLOCK=64, FAULT="none")
    return y


@triton.jit
def _scaled(x, scales, y, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    # The scale of the whole tile is that of its first element: right only while a tile lies within one group.
    start = tl.program_id(0) * BLOCK
    offset = start + tl.arange(0, BLOCK)
    inside = offset < n
    scale = tl.load(scales + start // GROUP)
    tl.store(y + offset, tl.load(x + offset, mask=inside) * scale, mask=inside)


def scaled(x, scales):
    """Return x times one scale per 64 elements."""
    y = torch.empty_like(x)
    n = x.numel()
    _scaled[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, scales, y, n, GROUP=64, BLOCK=64)
    return y


@triton.jit
def _softmax(x, y, first, cols, BLOCK: tl.constexpr):
    # Columns before `first` are masked out, as in attention: a tile of nothing else has the maximum -inf.
    row = tl.program_id(0)
    largest = float("-inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        offset = start + tl.arange(0, BLOCK)
        inside = (offset >= first) & (offset < cols)
        value = tl.load(x + row * cols + offset, mask=inside, other=float("-inf"))
        new = tl.maximum(largest, tl.max(value, 0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(value - new), 0)
        largest = new
    for start in range(0, cols, BLOCK):
        offset = start + tl.arange(0, BLOCK)
        inside = (offset >= first) & (offset < cols)
        value = tl.load(x + row * cols + offset, mask=inside, other=float("-inf"))
        tl.store(y + row * cols + offset, tl.exp(value - largest) / total, mask=offset < cols)


def softmax(x, first):
    """Return the softmax of each row over its columns from `first` on."""
    rows, cols = x.shape
    y = torch.empty_like(x)
    _softmax[(rows,)](x, y, first, cols, BLOCK=64)
    return y


@triton.jit
def _reduce_rows(x, y, cols, BLOCK: tl.constexpr, KIND: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    offset = tl.arange(0, BLOCK)
    inside = offset < cols
    if KIND == "largest":
        padding = 0.0 if FAULT == "padded_by_zero" else float("-inf")
        result = tl.max(tl.load(x + row * cols + offset, mask=inside, other=padding), 0)
    elif KIND == "mean":
        count = BLOCK if FAULT == "divided_by_block" else cols
        result = tl.sum(tl.load(x + row * cols + offset, mask=inside, other=0.0), 0) / count
    elif KIND == "variance":
        mean = tl.sum(tl.load(x + row * cols + offset, mask=inside, other=0.0), 0) / cols
        off = tl.load(x + row * cols + offset, mask=inside, other=0.0) - mean
        if FAULT != "padding_counted":
            off = tl.where(inside, off, 0.0)
        result = tl.sum(off * off, 0) / cols
    tl.store(y + row, result)


def reduce_rows(x, kind):
    """Return the largest element, the mean or the variance of each row."""
    rows, cols = x.shape
    y = torch.empty((rows,), dtype=x.dtype, device=x.device)
    _reduce_rows[(rows,)](x, y, cols, BLOCK=64, KIND=kind, FAULT="none")
    return y


@triton.jit
def _argmax(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    best = float("-inf")
    place = 0
    for start in range(0, n, BLOCK):
        offset = start + tl.arange(0, BLOCK)
        value = tl.load(x + offset, mask=offset < n, other=float("-inf"))
        here, index = tl.max(value, 0), start + tl.argmax(value, 0)
        better = here > best
        if FAULT == "last_tile_wins":
            better = here >= best
        place = tl.where(better, index, place)
        best = tl.where(better, here, best)
    tl.store(y, place)


def argmax(x):
    """Return the first index of the largest element."""
    y = torch.empty((1,), dtype=torch.int32, device=x.device)
    _argmax[(1,)](x, y, x.numel(), BLOCK=64, FAULT="none")
    return y


@triton.jit
def _row_sums(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offset = tl.arange(0, BLOCK)
    tl.store(y + row, tl.sum(tl.load(x + row * cols + offset, mask=offset < cols, other=0.0), 0))


def row_sums(x):
    """Return the sums of the rows of x."""
    rows, cols = x.shape
    y = torch.empty((rows,), dtype=x.dtype, device=x.device)
    _row_sums[(rows,)](x, y, cols, BLOCK=triton.next_power_of_2(cols), num_warps=4)
    return y


@triton.jit
def _multiply_add(x, y, z, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside)
    tl.store(z + offset, value * value + tl.load(y + offset, mask=inside), mask=inside)


def multiply_add(x, y):
    """Return x * x + y."""
    z = torch.empty_like(x)
    n = x.numel()
    _multiply_add[(triton.cdiv(n, 64),)](x, y, z, n, BLOCK=64)
    return z


@triton.jit
def _add_parts(x, partial, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(part * BLOCK, n, PARTS * BLOCK):
        offset = start + tl.arange(0, BLOCK)
        total += tl.load(x + offset, mask=offset < n, other=0.0)
    tl.atomic_add(partial + tl.arange(0, BLOCK), total)


def add_parts(x, config=None):
    """Return 64 sums over x; with several parts they add to each other's in any order."""
    parts = config["PARTS"] if config else 1
    total = torch.zeros((64,), dtype=torch.float32, device=x.device)
    _add_parts[(parts,)](x, total, x.numel(), PARTS=parts, BLOCK=64)
    return total
