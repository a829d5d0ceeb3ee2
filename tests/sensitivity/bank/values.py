"""Kernels whose results are wrong by little: signs, payloads, rounding, types, forms."""

import random
import time

import torch
import triton
import triton.language as tl


@triton.jit
def _map(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside)
    bits = value.to(tl.int32, bitcast=True)
    if FAULT == "sign_of_zero":
        value = tl.where(value == 0.0, 0.0, value)
    elif FAULT == "nan_payload":
        value = tl.where(value != value, bits ^ 1, bits).to(tl.float32, bitcast=True)
    elif FAULT == "nan_to_zero":
        value = tl.where(value != value, 0.0, value)
    elif FAULT == "infinity_to_largest":
        value = tl.where(value == float("inf"), 3.4028234663852886e38, value)
    elif FAULT == "denormal_to_zero":
        value = tl.where(tl.abs(value) < 1.1754943508222875e-38, 0.0, value)
    elif FAULT == "one_bit":
        value = tl.where(offset == 5, bits ^ 1, bits).to(tl.float32, bitcast=True)
    tl.store(y + offset, value, mask=inside)


def copy(x):
    """Return x in new memory."""
    y = torch.empty_like(x)
    n = x.numel()
    _map[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _narrow(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n)
    if FAULT == "rounds_twice":
        value = value.to(tl.float16).to(tl.float32)
    bits = value.to(tl.int32, bitcast=True)
    if FAULT != "truncates":
        bits += 0x7FFF + ((bits >> 16) & 1)  # to the nearest, ties to even
    value = (bits & -65536).to(tl.float32, bitcast=True)
    tl.store(y + offset, value.to(tl.bfloat16), mask=offset < n)


def narrow(x):
    """Return x in bfloat16."""
    y = torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)
    n = x.numel()
    _narrow[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _gather(x, index, y, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    place = tl.load(index + offset, mask=inside, other=0)
    if FAULT == "index_16_bits":
        place = place & 65535
    elif FAULT == "product_32_bits":
        # 2**16 * 2**16 is 0 in 32 bits.
        place = ((place.to(tl.int32) * stride.to(tl.int32)) // stride).to(tl.int64)
    else:
        place = place * stride // stride
    tl.store(y + offset, tl.load(x + place, mask=inside), mask=inside)


def gather(x, index):
    """Return the elements of x at the places that index holds, by way of byte offsets."""
    y = torch.empty(index.shape, dtype=x.dtype, device=x.device)
    n = index.numel()
    _gather[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, index, y, n, 1 << 16, BLOCK=64, FAULT="none")
    return y


@triton.jit
def _copy_long(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    if FAULT == "offset_32_bits":
        offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    else:
        offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = (offset >= 0) & (offset < n)
    tl.store(y + offset, tl.load(x + offset, mask=inside), mask=inside)


def copy_long(x):
    """Return a copy of x, which may have more elements than an int32 counts."""
    y = torch.empty_like(x)
    n = x.numel()
    _copy_long[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=8192, FAULT="none")
    return y


@triton.jit
def _copy_strided(x, y, rows, cols, row_stride, col_stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < rows * cols
    row, col = offset // cols, offset % cols
    if FAULT == "takes_x_for_contiguous":
        value = tl.load(x + offset, mask=inside)
    elif FAULT == "swaps_strides":
        value = tl.load(x + row * col_stride + col * row_stride, mask=inside & (row < cols) & (col < rows), other=0.0)
    else:
        value = tl.load(x + row * row_stride + col * col_stride, mask=inside)
    tl.store(y + offset, value, mask=inside)


def copy_strided(x):
    """Return a contiguous copy of a matrix."""
    rows, cols = x.shape
    y = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    _copy_strided[lambda meta: (triton.cdiv(rows * cols, meta["BLOCK"]),)](
        x, y, rows, cols, *x.stride(), BLOCK=64, FAULT="none"
    )
    return y


@triton.jit
def _dropout(x, y, n, seed, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    lane = offset
    if FAULT == "counts_within_tile":
        lane = tl.arange(0, BLOCK)
    elif FAULT == "one_tile_apart":
        lane = offset + tl.program_id(0)
    keep = tl.rand(seed, lane) > 0.5
    tl.store(y + offset, tl.where(keep, tl.load(x + offset, mask=inside), 0.0), mask=inside)


def dropout(x, seed):
    """Return x with half of its elements dropped."""
    y = torch.empty_like(x)
    n = x.numel()
    _dropout[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, seed, BLOCK=64, FAULT="none")
    return y


class Scale(torch.autograd.Function):
    """Three times its input, with a gradient from a kernel."""

    @staticmethod
    def forward(ctx, x):
        """Return 3 x."""
        return 3.0 * x

    @staticmethod
    def backward(ctx, grad):
        """Return 3 grad."""
        out = torch.empty_like(grad)
        n = grad.numel()
        _scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](grad.contiguous(), out, n, BLOCK=64, FACTOR=3.0)
        return out


@triton.jit
def _scale(x, y, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset, mask=offset < n) * FACTOR, mask=offset < n)


def answer(x, fault):
    """Return x + 1, or the same values in another form."""
    y = x + 1.0
    if fault == "dtype":
        return y.to(torch.float64)
    if fault == "shape":
        return y[:-1]
    if fault == "strides":
        return torch.stack([y, y], 1)[:, 0]
    if fault == "one_more":
        return y, y
    if fault == "none_instead":
        return y, None
    if fault == "number_instead":
        return y.sum().item()
    if fault == "torch_random":
        return y + torch.rand((), device=x.device)
    if fault == "python_random":
        return y + random.random()
    if fault == "clock":
        return y + time.perf_counter_ns() % 1_000_003
    return y
