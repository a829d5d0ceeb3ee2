"""Configs of which many do not fit: matrix product, attention and a reduction, on small inputs."""

import torch
import triton
import triton.language as tl

from pytest_kernelqual import Case, Config, grid, kernel_spec


@triton.jit
def _product(a, b, c, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty))


def _multiplied(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    _product[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](
        a, b, c, n, k, **blocks, num_warps=4, num_stages=2
    )
    return c


@kernel_spec(
    kernel=_product,
    candidates=[
        *grid(
            BLOCK_M=[64, 128], BLOCK_N=[64, 128], BLOCK_K=[32, 64, 128], num_warps=[4, 8], num_stages=[2, 3, 4, 5, 6, 8]
        ),
        *grid(BLOCK_M=256, BLOCK_N=[64, 128], BLOCK_K=[64, 128], num_warps=8, num_stages=[2, 3, 4, 5]),
    ],
    cases=[Case(n=512, dtype="float16")],
    screen="tells what fits",
)
def product(case, seeded):
    a = seeded.normal((case.n, case.n), dtype=case.dtype)
    b = seeded.normal((case.n, case.n), dtype=case.dtype)
    return lambda: _multiplied(a, b)


@triton.jit
def _attended(q, k, v, out, KEYS, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    wide, near = tl.arange(0, D), tl.arange(0, BLOCK_N)
    query = tl.load(q + rows[:, None] * D + wide[None, :])
    most = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, KEYS, BLOCK_N):
        key = tl.load(k + (start + near)[None, :] * D + wide[:, None])
        score = tl.dot(query, key)
        new = tl.maximum(most, tl.max(score, 1))
        part, scale = tl.exp(score - new[:, None]), tl.exp(most - new)
        value = tl.load(v + (start + near)[:, None] * D + wide[None, :])
        total = tl.dot(part.to(value.dtype), value, total * scale[:, None])
        weight, most = weight * scale + tl.sum(part, 1), new
    tl.store(out + rows[:, None] * D + wide[None, :], (total / weight[:, None]).to(out.dtype.element_ty))


def _attention(q, k, v):
    out = torch.empty_like(q)
    _attended[lambda meta: (triton.cdiv(q.shape[0], meta["BLOCK_M"]),)](
        q, k, v, out, k.shape[0], D=q.shape[1], BLOCK_M=64, BLOCK_N=32, num_warps=4, num_stages=2
    )
    return out


@kernel_spec(
    kernel=_attended,
    candidates=grid(BLOCK_M=[64, 128], BLOCK_N=[32, 64, 128], num_warps=8, num_stages=[1, 2, 3, 4, 5]),
    cases=[Case(n=256, d=128, dtype="float16"), Case(n=256, d=256, dtype="bfloat16")],
    screen="tells what fits",
)
def attention(case, seeded):
    q, k, v = (seeded.normal((case.n, case.d), dtype=case.dtype) for _ in range(3))
    return lambda: _attention(q, k, v)


@triton.jit
def _summed(x, out, N: tl.constexpr):
    row = tl.program_id(0)
    at = row * N + tl.arange(0, N)
    tl.store(out + at, tl.cumsum(tl.load(x + at).to(tl.float32), 0).to(out.dtype.element_ty))


def _sums(x):
    out = torch.empty_like(x)
    _summed[(x.shape[0],)](x, out, N=x.shape[1], num_warps=4)
    return out


@kernel_spec(
    kernel=_summed,
    candidates=[Config(num_warps=warps) for warps in (1, 2, 4, 8, 16, 32, 64)],
    cases=[Case(rows=4, n=1024, dtype="float32"), Case(rows=4, n=16384, dtype="bfloat16")],
    screen="tells what fits",
)
def sums(case, seeded):
    x = seeded.normal((case.rows, case.n), dtype=case.dtype)
    return lambda: _sums(x)
