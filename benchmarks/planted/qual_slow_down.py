"""A kernel whose time is set by a loop: each candidate is slower than the fixed launch by a known share."""

import torch
import triton
import triton.language as tl

from pytest_kernelqual import Case, Config, kernel_spec

# Iterations of the fixed launch, and of candidates that are slower by about so many percent.
# The number is no constexpr: all of them run the same code.
FIXED = 2000
SLOWER = {0: 2000, 0.5: 2010, 3: 2060, 5: 2100, 10: 2200}


@triton.jit
def _work(x, y, n, work, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside)
    for _ in range(work):
        value = value * 0.999 + 0.001
    tl.store(y + offset, value, mask=inside)


def work(x, iterations=FIXED):
    """Return x after a number of multiply-adds."""
    y = torch.empty_like(x)
    n = x.numel()
    _work[(triton.cdiv(n, 1024),)](x, y, n, iterations, BLOCK=1024)
    return y


@kernel_spec(
    candidates=[Config(WORK=iterations) for iterations in SLOWER.values()],
    cases=[Case(n=1 << 18), Case(n=1 << 20), Case(n=1 << 21)],
    screen="more iterations give other bytes; only their time matters here",
)
def slow_down(case, seeded):
    """More work than the fixed launch."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: work(x, config["WORK"] if config else FIXED)
