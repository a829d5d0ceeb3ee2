"""Kernels on tiles of two axes, and dots."""

import triton
import triton.language as tl


@triton.jit
def column_sum(x, y, o, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    col = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, rows, BLOCK_M):
        row = start + tl.arange(0, BLOCK_M)
        inside = (row[:, None] < rows) & (col[None, :] < cols)
        total += tl.sum(tl.load(x + row[:, None] * cols + col[None, :], mask=inside, other=0.0), 0)
    tl.store(o + col, total, mask=col < cols)


@triton.jit
def tile_row_sum(x, y, o, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, cols, BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        inside = (row[:, None] < rows) & (col[None, :] < cols)
        total += tl.sum(tl.load(x + row[:, None] * cols + col[None, :], mask=inside, other=0.0), 1)
    tl.store(o + row, total, mask=row < rows)


@triton.jit
def tile_squares(x, y, o, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    a = tl.load(x + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    tl.store(o + tl.program_id(0), tl.sum(tl.sum(a * a, 1), 0))


@triton.jit
def transpose(x, y, o, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    a = tl.load(x + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    tl.store(o + col[:, None] * rows + row[None, :], tl.trans(a), mask=tl.trans(inside))


@triton.jit
def bias_gelu(x, y, o, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    a = tl.load(x + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    a += tl.load(y + col, mask=col < cols, other=0.0)[None, :]
    tl.store(o + row[:, None] * cols + col[None, :], 0.5 * a * (1.0 + tl.erf(a * 0.7071)), mask=inside)


@triton.jit
def outer_affine(x, y, o, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    a = tl.load(x + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    w = tl.load(y + col, mask=col < cols, other=0.0)[None, :]
    tl.store(o + row[:, None] * cols + col[None, :], a * w + w, mask=inside)


@triton.jit
def two_products(x, y, o, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    # One product is a whole row's: how many elements of the row a thread has decides which of the two is rounded.
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    first = tl.load(x + row * cols, mask=row < rows, other=0.0)
    shared = first * tl.load(x + row * cols + 1, mask=row < rows, other=0.0)
    a = tl.load(x + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    own = a * tl.load(y + col, mask=col < cols, other=0.0)[None, :]
    tl.store(o + row[:, None] * cols + col[None, :], shared[:, None] + own, mask=inside)


@triton.jit
def matmul(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr = "tf32", GROUP: tl.constexpr = 1, ROW_FIRST: tl.constexpr = True,
    CHAINED: tl.constexpr = True, ACC: tl.constexpr = tl.float32,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    if GROUP > 1:
        in_group = GROUP * tiles_n
        first = (pid // in_group) * GROUP
        size = min(tiles_m - first, GROUP)
        m = first + (pid % in_group) % size
        n = (pid % in_group) // size
    elif ROW_FIRST:
        m = pid // tiles_n
        n = pid % tiles_n
    else:
        m = pid % tiles_m
        n = pid // tiles_m
    row = m * BLOCK_M + tl.arange(0, BLOCK_M)
    col = n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    left = a + row[:, None] * K + k[None, :]
    right = b + k[:, None] * N + col[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), ACC)
    for start in range(0, K, BLOCK_K):
        p = tl.load(left, mask=(row[:, None] < M) & (start + k[None, :] < K), other=0)
        q = tl.load(right, mask=(start + k[:, None] < K) & (col[None, :] < N), other=0)
        if CHAINED:
            total = tl.dot(p, q, total, input_precision=PRECISION, out_dtype=ACC)
        else:
            total += tl.dot(p, q, input_precision=PRECISION, out_dtype=ACC) * 0.999
        left += BLOCK_K
        right += BLOCK_K * N
    out = c + row[:, None] * N + col[None, :]
    tl.store(out, total.to(c.dtype.element_ty), mask=(row[:, None] < M) & (col[None, :] < N))


@triton.jit
def split_k(
    a, b, parts, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr
):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        k = (start * SPLIT_K + tl.program_id(2)) * BLOCK_K + tl.arange(0, BLOCK_K)
        p = tl.load(a + row[:, None] * K + k[None, :], mask=(row[:, None] < M) & (k[None, :] < K), other=0.0)
        q = tl.load(b + k[:, None] * N + col[None, :], mask=(k[:, None] < K) & (col[None, :] < N), other=0.0)
        total = tl.dot(p, q, total)
    out = parts + tl.program_id(2) * M * N + row[:, None] * N + col[None, :]
    tl.store(out, total, mask=(row[:, None] < M) & (col[None, :] < N))


@triton.jit
def outer_products(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        p = tl.load(a + row[:, None] * K + k[None, :], mask=(row[:, None] < M) & (k[None, :] < K), other=0.0)
        q = tl.load(b + k[:, None] * N + col[None, :], mask=(k[:, None] < K) & (col[None, :] < N), other=0.0)
        total += tl.sum(p[:, :, None] * q[None, :, :], 1)
    tl.store(c + row[:, None] * N + col[None, :], total, mask=(row[:, None] < M) & (col[None, :] < N))


@triton.jit
def attention(
    q, k, v, o, length, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr
):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, DIM)
    query = tl.load(q + row[:, None] * DIM + dim[None, :], mask=row[:, None] < length, other=0.0)
    highest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BLOCK_M, length) if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        key = tl.load(k + col[None, :] * DIM + dim[:, None], mask=col[None, :] < length, other=0.0)
        score = tl.dot(query, key)
        shown = col[None, :] < length
        if CAUSAL:
            shown = shown & (col[None, :] <= row[:, None])
        score = tl.where(shown, score * 0.125, -float("inf"))
        higher = tl.maximum(highest, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        fade = tl.exp(highest - higher)
        total = total * fade + tl.sum(weight, 1)
        value = tl.load(v + col[:, None] * DIM + dim[None, :], mask=col[:, None] < length, other=0.0)
        acc = tl.dot(weight.to(value.dtype), value, acc * fade[:, None])
        highest = higher
    tl.store(o + row[:, None] * DIM + dim[None, :], acc / total[:, None], mask=row[:, None] < length)
