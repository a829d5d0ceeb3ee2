"""Kernels that are wrong under some configs, each in a way that was seen in the wild."""

import torch
import triton
import triton.language as tl


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
    elif FAULT == "writes_before_start":
        tl.store(y + offset - 1, value, mask=inside)
        tl.store(y + offset, value, mask=inside)
    elif FAULT == "every_other_program":
        tl.store(y + offset, value, mask=inside & (offset // BLOCK % 2 == 0))
    elif FAULT == "reads_output":
        tl.store(y + offset, value + 0.0 * tl.load(y + offset, mask=inside, other=0.0), mask=inside)
    elif FAULT == "changes_input":
        tl.store(y + offset, value, mask=inside)
        tl.store(x + offset, value + 1.0, mask=inside)
    elif FAULT == "sign_of_zero":
        tl.store(y + offset, tl.where(value == 0.0, value * -1.0, value), mask=inside)
    elif FAULT == "wrong_for_one_block" and BLOCK == 128:
        tl.store(y + offset, value * 1.0000001, mask=inside)
    elif FAULT == "one_element":
        tl.store(y + offset, tl.where(offset == n - 1, value + 1.0, value), mask=inside)
    else:
        tl.store(y + offset, value, mask=inside)


def copy(x):
    """Return a copy of x."""
    y = torch.empty_like(x)
    n = x.numel()
    _copy[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _copy_rows(x, y, cols, stride, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    row = tl.program_id(0)
    offset = tl.arange(0, BLOCK)
    inside = offset < cols
    value = tl.load(x + row * stride + offset, mask=inside, other=0.0)
    if MASKED:
        tl.store(y + row * stride + offset, value, mask=inside)
    else:
        tl.store(y + row * stride + offset, value)


def copy_rows(x, out_stride):
    """Return a copy of the rows of x with rows that are `out_stride` elements apart."""
    rows, cols = x.shape
    y = torch.empty_strided((rows, cols), (out_stride, 1), dtype=x.dtype, device=x.device)
    _copy_rows[(rows,)](x, y, cols, out_stride, BLOCK=64, MASKED=True)
    return y


@triton.jit
def _matmul(a, b, c, m, n, k, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, FAULT: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    steps = k // BLOCK_K if FAULT == "missing_tail" else tl.cdiv(k, BLOCK_K)
    for step in range(steps):
        inner = step * BLOCK_K + tl.arange(0, BLOCK_K)
        left = tl.load(
            a + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0
        )
        right = tl.load(
            b + inner[:, None] * n + cols[None, :], mask=(inner[:, None] < k) & (cols[None, :] < n), other=0.0
        )
        part = tl.sum(left.to(tl.float32)[:, :, None] * right.to(tl.float32)[None, :, :], 1)
        if FAULT == "narrow_accumulator":
            total = (total + part).to(tl.float16).to(tl.float32)
        else:
            total += part
    tl.store(c + rows[:, None] * n + cols[None, :], total, mask=(rows[:, None] < m) & (cols[None, :] < n))


def matmul(a, b):
    """Return a @ b in float32."""
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    _matmul[(triton.cdiv(m, 16), triton.cdiv(n, 16))](a, b, c, m, n, k, BLOCK=16, BLOCK_K=16, FAULT="none")
    return c


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
def _partial_sums(x, partial, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offset = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + pid, tl.sum(tl.load(x + offset, mask=offset < n, other=0.0), 0))


def total_with_dirty_workspace(x, block=None):
    """Return the sum of x; the workspace is sized for the smallest block and assumed to be zero."""
    n = x.numel()
    partial = torch.empty((triton.cdiv(n, 32),), dtype=x.dtype, device=x.device)
    _partial_sums[(triton.cdiv(n, block or 32),)](x, partial, n, BLOCK=block or 32)
    return partial.sum()


@triton.jit
def _double(x, y, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    tl.store(y + offset, tl.load(x + offset, mask=inside) * FACTOR, mask=inside)


class Double(torch.autograd.Function):
    """Twice its input, with a gradient from the same kernel."""

    @staticmethod
    def forward(ctx, x):
        """Return 2 x."""
        return 2.0 * x

    @staticmethod
    def backward(ctx, grad):
        """Return 2 grad."""
        out = torch.empty_like(grad)
        n = grad.numel()
        _double[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](grad.contiguous(), out, n, BLOCK=64, FACTOR=2.0)
        return out


_outputs = {}


def copy_into_cached(x):
    """Return a copy of x in a buffer that is kept from call to call, as many a workspace is."""
    if x.shape not in _outputs:
        _outputs[x.shape] = torch.empty_like(x)
    y = _outputs[x.shape]
    n = x.numel()
    _copy[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64, FAULT="none")
    return y


_tables = {}


def scaled_by_cached_table(x, config=None):
    """Return x times a table that the first call computes and all others find."""
    if x.shape not in _tables:
        table = torch.empty_like(x)
        table.copy_(torch.arange(x.numel(), device=x.device))
        _tables[x.shape] = table
    y = torch.empty_like(x)
    torch.mul(x, _tables[x.shape], out=y)
    if config and config["FAULT"] == "spoils_table":
        _tables[x.shape].zero_()
    return y


_memory = {}


def remembered_copy(x):
    """Return a copy of x, remembered by shape as a careless cache does."""
    if x.shape not in _memory:
        _memory[x.shape] = copy(x)
    return _memory[x.shape]
