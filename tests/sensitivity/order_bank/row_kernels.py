"""Kernels that combine along rows: sums, norms, softmaxes, scans."""

import triton
import triton.language as tl


@triton.jit
def row_sum(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float32)
    tl.store(o + row, tl.sum(a, 0))


@triton.jit
def row_sum_f64(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float64)
    tl.store(o + row, tl.sum(a * 1.1, 0))


@triton.jit
def row_sum_f16(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float16)
    tl.store(o + row, tl.sum(a, 0).to(tl.float32))


@triton.jit
def row_sum_looped(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float32), 0)
    tl.store(o + row, total)


@triton.jit
def row_sum_lanes(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float32)
    tl.store(o + row, tl.sum(total, 0))


@triton.jit
def row_sum_reversed(x, y, o, rows, cols, BLOCK: tl.constexpr, REVERSED: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, cols, BLOCK):
        first = cols - start - BLOCK if REVERSED else start
        col = first + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + row * cols + col, mask=(col >= 0) & (col < cols), other=0.0), 0)
    tl.store(o + row, total)


@triton.jit
def row_sum_strided(x, y, o, rows, cols, BLOCK: tl.constexpr, STRIDED: tl.constexpr):
    # The same number of iterations and tiles; only which element lands in which differs.
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    steps = tl.cdiv(cols, BLOCK)
    for step in range(steps):
        col = tl.arange(0, BLOCK) * steps + step if STRIDED else step * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    tl.store(o + row, tl.sum(total, 0))


@triton.jit
def row_sum_accumulators(x, y, o, rows, cols, BLOCK: tl.constexpr, ACCUMULATORS: tl.constexpr):
    row = tl.program_id(0)
    first = 0.0
    second = 0.0
    for start in range(0, cols, 2 * BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.sum(tl.load(x + row * cols + col, mask=col < cols, other=0.0), 0)
        b = tl.sum(tl.load(x + row * cols + BLOCK + col, mask=col + BLOCK < cols, other=0.0), 0)
        if ACCUMULATORS == 2:
            first += a
            second += b
        else:
            first = first + a + b
    tl.store(o + row, first + second)


@triton.jit
def row_sum_flattened(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    tl.store(o + row, tl.sum(tl.reshape(a, (BLOCK // 8, 8))))


@triton.jit
def row_grouped_sum(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    tl.store(o + row, tl.max(tl.sum(tl.reshape(a, (BLOCK // 64, 64)), 1), 0))


@triton.jit
def rms_norm(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(a * a, 0) / cols + 1e-6)
    w = tl.load(y + col, mask=col < cols, other=0.0).to(tl.float32)
    tl.store(o + row * cols + col, (a * scale * w).to(o.dtype.element_ty), mask=col < cols)


@triton.jit
def layer_norm(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float32)
    mean = tl.sum(a, 0) / cols
    centred = tl.where(col < cols, a - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / cols + 1e-5)
    w = tl.load(y + col, mask=col < cols, other=0.0).to(tl.float32)
    tl.store(o + row * cols + col, (centred * scale * w + 0.5).to(o.dtype.element_ty), mask=col < cols)


@triton.jit
def layer_norm_looped(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    mean = tl.sum(total, 0) / cols
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
        a = tl.where(col < cols, a - mean, 0.0)
        squares += a * a
    scale = tl.rsqrt(tl.sum(squares, 0) / cols + 1e-5)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
        w = tl.load(y + col, mask=col < cols, other=0.0)
        tl.store(o + row * cols + col, (a - mean) * scale * w, mask=col < cols)


@triton.jit
def _welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    ratio = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + delta * ratio, m2_a + m2_b + delta * delta * n_a * ratio, n


@triton.jit
def welford(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float32)
    counted = (col < cols).to(tl.float32)
    mean, m2, _n = tl.reduce((a, tl.zeros_like(a), counted), 0, _welford)
    tl.store(o + row, mean + m2)


@triton.jit
def softmax(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(a - tl.max(a, 0))
    tl.store(o + row * cols + col, (e / tl.sum(e, 0)).to(o.dtype.element_ty), mask=col < cols)


@triton.jit
def softmax_looped(x, y, o, rows, cols, BLOCK: tl.constexpr, ONLINE: tl.constexpr):
    row = tl.program_id(0)
    highest = -float("inf")
    total = 0.0
    if ONLINE:
        for start in range(0, cols, BLOCK):
            col = start + tl.arange(0, BLOCK)
            a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf"))
            higher = tl.maximum(highest, tl.max(a, 0))
            total = total * tl.exp(highest - higher) + tl.sum(tl.exp(a - higher), 0)
            highest = higher
    else:
        for start in range(0, cols, BLOCK):
            col = start + tl.arange(0, BLOCK)
            a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf"))
            highest = tl.maximum(highest, tl.max(a, 0))
        for start in range(0, cols, BLOCK):
            col = start + tl.arange(0, BLOCK)
            a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf"))
            total += tl.sum(tl.exp(a - highest), 0)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf"))
        tl.store(o + row * cols + col, tl.exp(a - highest) / total, mask=col < cols)


@triton.jit
def logsumexp(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf"))
        higher = tl.maximum(highest, tl.max(a, 0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(a - higher), 0)
        highest = higher
    tl.store(o + row, highest + tl.log(total))


@triton.jit
def logsumexp_scaled(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf")) * 0.7
        higher = tl.maximum(highest, tl.max(a, 0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(a - higher), 0)
        highest = higher
    tl.store(o + row, highest + tl.log(total))


@triton.jit
def cross_entropy(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf")).to(tl.float32)
    highest = tl.max(a, 0)
    total = tl.sum(tl.exp(a - highest), 0)
    tl.store(o + row, tl.log(total) + highest - tl.load(x + row * cols + row % cols))


@triton.jit
def softmax_backward(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    g = tl.load(y + col, mask=col < cols, other=0.0)
    total = tl.sum(tl.where(col < cols, a * g, 0.0), 0)
    tl.store(o + row * cols + col, a * (g - total), mask=col < cols)


@triton.jit
def cosine(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    b = tl.load(y + col, mask=col < cols, other=0.0)
    tl.store(o + row, tl.sum(a * b, 0) / tl.sqrt(tl.sum(a * a, 0) * tl.sum(b * b, 0)))


@triton.jit
def matvec(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float32)
        total += tl.sum(a * tl.load(y + col, mask=col < cols, other=0.0).to(tl.float32), 0)
    tl.store(o + row, total)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def product(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    tl.store(o + row, tl.reduce(tl.where(col < cols, 1.0 + a / 64.0, 1.0), 0, _times))


@triton.jit
def cumsum(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0).to(tl.float32)
    tl.store(o + row * cols + col, tl.cumsum(a, 0), mask=col < cols)


@triton.jit
def cumsum_looped(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    before = 0.0
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
        tl.store(o + row * cols + col, before + tl.cumsum(a, 0), mask=col < cols)
        before += tl.sum(a, 0)


@triton.jit
def _recur(decay_a, value_a, decay_b, value_b):
    return decay_a * decay_b, value_a * decay_b + value_b


@triton.jit
def linear_recurrence(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    _decay, h = tl.associative_scan((tl.sigmoid(a), a), 0, _recur)
    tl.store(o + row * cols + col, h, mask=col < cols)


@triton.jit
def row_max(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf"))
    tl.store(o + row, tl.max(a, 0))


@triton.jit
def row_max_looped(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest = -float("inf")
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        highest = tl.maximum(highest, tl.max(tl.load(x + row * cols + col, mask=col < cols, other=-float("inf")), 0))
    tl.store(o + row, highest)


@triton.jit
def quantize_rows(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    scale = tl.max(tl.abs(a), 0) / 127.0
    tl.store(o + row * cols + col, tl.floor(a / scale + 0.5), mask=col < cols)


@triton.jit
def int_sum(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0)
    tl.store(o + row, tl.sum(a * 3, 0))


@triton.jit
def int_sum_looped(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((), tl.int32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + row * cols + col, mask=col < cols, other=0), 0)
    tl.store(o + row, total)


@triton.jit
def int_sum_lanes(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * cols + col, mask=col < cols, other=0)
    tl.store(o + row, tl.sum(total, 0))


@triton.jit
def int_xor(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    tl.store(o + row, tl.xor_sum(tl.load(x + row * cols + col, mask=col < cols, other=0), 0))


@triton.jit
def int_range(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0)
    tl.store(o + row, tl.max(a, 0) - tl.min(a, 0))


@triton.jit
def int_cumsum(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + col, mask=col < cols, other=0)
    tl.store(o + row * cols + col, tl.cumsum(a, 0), mask=col < cols)


@triton.jit
def count_positive(x, y, o, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((), tl.int32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
        total += tl.sum((a * 1.5 + 0.1 > 0.2).to(tl.int32), 0)
    tl.store(o + row, total.to(tl.float32))


@triton.jit
def int_count(x, y, o, rows, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    place = start + tl.arange(0, BLOCK)
    a = tl.load(x + place, mask=place < rows * cols, other=0)
    tl.atomic_add(o + (a & 15), 1, mask=place < rows * cols, sem="relaxed")


@triton.jit
def atomic_sum(x, y, o, rows, cols, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + place, mask=place < rows * cols, other=0.0)
    tl.atomic_add(o, tl.sum(a, 0))


@triton.jit
def partial_sums(x, y, o, rows, cols, BLOCK: tl.constexpr):
    # What only the grid decides: every program takes each n-th row.
    col = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        total += tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    tl.store(y + tl.program_id(0) * cols + col, total, mask=col < cols)


@triton.jit
def partial_sums_chunked(x, y, o, rows, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    col = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * ROWS
    for row in range(first, tl.minimum(first + ROWS, rows)):
        total += tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    tl.store(y + tl.program_id(0) * cols + col, total, mask=col < cols)


@triton.jit
def sum_of_partials(y, o, parts, cols, BLOCK: tl.constexpr):
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(parts):
        total += tl.load(y + part * cols + col, mask=col < cols, other=0.0)
    tl.store(o + col, total, mask=col < cols)
