"""A kernel whose time is set by its size and by a loop, down to what a launch takes at least."""

import torch
import triton
import triton.language as tl

# Elements, and iterations for each of them: from a launch that does next to nothing up to tens of microseconds,
# by arithmetic and by memory.
SIZES = ((1 << 12, 2), (1 << 18, 2), (1 << 18, 250), (1 << 22, 2), (1 << 18, 2000), (1 << 24, 2))


@triton.jit
def _work(x, y, n, work, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside)
    for _ in range(work):
        value = value * 0.999 + 0.001
    tl.store(y + offset, value, mask=inside)


def work(x, iterations):
    """Return x after a number of multiply-adds."""
    y = torch.empty_like(x)
    n = x.numel()
    _work[(triton.cdiv(n, 1024),)](x, y, n, iterations, BLOCK=1024)
    return y
