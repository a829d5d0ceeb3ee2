"""Kernels that compute each element on its own."""

import triton
import triton.language as tl


@triton.jit
def copy(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + p, tl.load(x + p, mask=p < n), mask=p < n)


@triton.jit
def cast(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + p, tl.load(x + p, mask=p < n).to(tl.bfloat16), mask=p < n)


@triton.jit
def add(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + p, tl.load(x + p, mask=p < n) + tl.load(y + p, mask=p < n), mask=p < n)


@triton.jit
def axpy(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    b = tl.load(y + p, mask=p < n, other=0.0)
    tl.store(o + p, a * b + tl.load(z + p, mask=p < n, other=0.0), mask=p < n)


@triton.jit
def axpy_bf16(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0).to(tl.float32)
    b = tl.load(y + p, mask=p < n, other=0.0).to(tl.float32)
    c = tl.load(z + p, mask=p < n, other=0.0).to(tl.float32)
    tl.store(o + p, (a * b + c).to(tl.bfloat16), mask=p < n)


@triton.jit
def guarded(x, y, z, o, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    # Where the block divides the size, nothing stands between the product and the sum.
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    q = a * tl.load(y + p, mask=p < n, other=0.0)
    if not EVEN:
        q = tl.where(p < n, q, 0.0)
    tl.store(o + p, q + tl.load(z + p, mask=p < n, other=0.0), mask=p < n)


@triton.jit
def product_kept(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(x + p, mask=p < n, other=0.0) * tl.load(y + p, mask=p < n, other=0.0)
    tl.store(y + p, q, mask=p < n)
    tl.store(o + p, q + tl.load(z + p, mask=p < n, other=0.0), mask=p < n)


@triton.jit
def rope(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = p < n // 2
    a = tl.load(x + 2 * p, mask=inside, other=0.0)
    b = tl.load(x + 2 * p + 1, mask=inside, other=0.0)
    c = tl.load(y + p, mask=inside, other=0.0)
    s = tl.load(z + p, mask=inside, other=0.0)
    tl.store(o + 2 * p, a * c - b * s, mask=inside)
    tl.store(o + 2 * p + 1, b * c + a * s, mask=inside)


@triton.jit
def polynomial(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    tl.store(o + p, ((0.1 * a + 0.3) * a + 0.7) * a + 0.9, mask=p < n)


@triton.jit
def swiglu(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    tl.store(o + p, a * tl.sigmoid(a) * tl.load(y + p, mask=p < n, other=0.0), mask=p < n)


@triton.jit
def gelu_tanh(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    t = 2.0 * tl.sigmoid(1.5957691 * (a + 0.044715 * a * a * a)) - 1.0
    tl.store(o + p, 0.5 * a * (1.0 + t), mask=p < n)


@triton.jit
def relu_clip(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    tl.store(o + p, tl.minimum(tl.maximum(a, 0.0), 1.5), mask=p < n)


@triton.jit
def exp_log(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    tl.store(o + p, tl.log(1.0 + tl.exp(a)) + tl.sin(a) / (2.0 + tl.cos(a)), mask=p < n)


@triton.jit
def dropout(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    tl.store(o + p, tl.where(tl.rand(17, p) > 0.25, a / 0.75, 0.0), mask=p < n)


@triton.jit
def momentum(x, y, z, o, n, BLOCK: tl.constexpr):
    # In place: what it reads is what it writes.
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = tl.load(y + p, mask=p < n, other=0.0) * 0.9 + tl.load(x + p, mask=p < n, other=0.0)
    tl.store(y + p, m, mask=p < n)
    tl.store(o + p, m * 0.01, mask=p < n)


@triton.jit
def strided_grid(x, y, z, o, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        p = start + tl.arange(0, BLOCK)
        a = tl.load(x + p, mask=p < n, other=0.0)
        tl.store(o + p, a * 1.7 + 0.3, mask=p < n)


@triton.jit
def gather(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = (tl.abs(tl.load(y + p, mask=p < n, other=0.0)) * 1000.0).to(tl.int32) % n
    tl.store(o + p, tl.load(x + place, mask=p < n, other=0.0) * 2.5, mask=p < n)


@triton.jit
def masked_fill(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0)
    tl.store(o + p, tl.where((p % 3 == 0) | (a > 1.0), -1.0, a), mask=p < n)


@triton.jit
def quantize(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n, other=0.0) / 0.037
    tl.store(o + p, tl.minimum(tl.maximum(tl.floor(a + 0.5), -128.0), 127.0), mask=p < n)


@triton.jit
def interleave(x, y, z, o, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    both = tl.interleave(tl.load(x + p, mask=p < n // 2), tl.load(y + p, mask=p < n // 2))
    q = 2 * tl.program_id(0) * BLOCK + tl.arange(0, 2 * BLOCK)
    tl.store(o + q, both, mask=q < n)


@triton.jit
def unrolled_sum(x, y, z, o, n, BLOCK: tl.constexpr, GROUPS: tl.constexpr):
    """Add eight parts of `x`, every GROUPS-th of them first."""
    part = n // 8
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for group in tl.static_range(GROUPS):
        for step in tl.static_range(8 // GROUPS):
            total += tl.load(x + (step * GROUPS + group) * part + p, mask=p < part, other=0.0)
    tl.store(o + p, total, mask=p < part)


@triton.jit
def masked_tail(x, y, z, o, n, BLOCK: tl.constexpr):
    """Compute full tiles without a mask: where there is none, the product is fused with the sum."""
    pid = tl.program_id(0)
    p = pid * BLOCK + tl.arange(0, BLOCK)
    if (pid + 1) * BLOCK <= n:
        tl.store(o + p, tl.load(x + p) * tl.load(y + p) + tl.load(z + p))
    else:
        mask = p < n
        product = tl.where(mask, tl.load(x + p, mask=mask) * tl.load(y + p, mask=mask), 0.0)
        tl.store(o + p, product + tl.load(z + p, mask=mask), mask=mask)


@triton.jit
def by_halves(x, y, z, o, n, BLOCK: tl.constexpr):
    """Compute the first half of the elements otherwise than the second."""
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p, mask=p < n)
    tl.store(o + p, tl.where(p < n // 2, a * a, a + 1.0), mask=p < n)
