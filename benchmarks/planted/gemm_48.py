"""A GEMM with 48 configs, as a library would autotune it."""

import torch
import triton
import triton.language as tl

CONFIGS = [
    {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": warps, "num_stages": stages}
    for m in (64, 128)
    for n in (64, 128)
    for k in (32, 64)
    for warps in (4, 8)
    for stages in (2, 3, 4)
]


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr
):
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    first = program // (GROUP_M * cols) * GROUP_M
    height = min(rows - first, GROUP_M)
    row = first + program % (GROUP_M * cols) % height
    col = program % (GROUP_M * cols) // height
    offset_m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    offset_n = col * BLOCK_N + tl.arange(0, BLOCK_N)
    offset_k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + offset_k
        left = tl.load(
            a + offset_m[:, None] * K + k[None, :], mask=(offset_m < M)[:, None] & (k < K)[None, :], other=0.0
        )
        right = tl.load(
            b + k[:, None] * N + offset_n[None, :], mask=(k < K)[:, None] & (offset_n < N)[None, :], other=0.0
        )
        total = tl.dot(left, right, total)
    inside = (offset_m < M)[:, None] & (offset_n < N)[None, :]
    tl.store(c + offset_m[:, None] * N + offset_n[None, :], total.to(tl.float16), mask=inside)


def matmul(a, b, kernel=matmul_kernel, config=None):
    """Return a @ b for float16 matrices; without a config the kernel chooses one itself."""
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=torch.float16)
    kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
        a, b, c, M, N, K, GROUP_M=8, **(config or {})
    )
    return c


def autotuned():
    """Return the kernel under triton.autotune with the 48 configs."""
    configs = [
        triton.Config(
            {name: value for name, value in config.items() if name.startswith("BLOCK")},
            num_warps=config["num_warps"],
            num_stages=config["num_stages"],
        )
        for config in CONFIGS
    ]
    return triton.autotune(configs, key=["M", "N", "K"])(matmul_kernel)
