"""Product code of the test suite: kernels of every kind that a spec can name, all of them doubling their input."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block in (32, 64) for warps in (1, 2)], key=["n"]
)
@triton.jit
def tuned_kernel(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n)
    tl.store(y + offset, value + value, mask=offset < n)


def tuned(x):
    """Return x doubled; the block size is the autotuner's."""
    y = torch.empty_like(x)
    n = x.numel()
    tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    return y


@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def even_kernel(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        value = tl.load(x + offset)
        tl.store(y + offset, value + value)
    else:
        value = tl.load(x + offset, mask=offset < n)
        tl.store(y + offset, value + value, mask=offset < n)


def even(x):
    """Return x doubled; whether masks are needed follows from the block size."""
    y = torch.empty_like(x)
    n = x.numel()
    even_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64)
    return y


@triton.jit
def parts_kernel(x, n, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    for part in tl.static_range(UNROLL):
        offset = start + part * (BLOCK // UNROLL) + tl.arange(0, BLOCK // UNROLL)
        value = tl.load(x + offset, mask=offset < n)
        tl.store(x + offset, value + value, mask=offset < n)


def parts_(x):
    """Double x in place; the grid is a tuple computed for BLOCK=64, which is given by position."""
    n = x.numel()
    parts_kernel[(triton.cdiv(n, 64),)](x, n, 64, UNROLL=2)


def eightfold(x):
    """Return 8 x by three launches of two kernels."""
    return tuned(even(tuned(x)))


def multiplied(x, config=None):
    """Return x times 2, or times what the config says."""
    return x * (2 if config is None else config["FACTOR"])
