"""Launches that crash, hang, do not compile or need more than there is."""

import os
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources


@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside)
    if FAULT == "far_past_end":
        tl.store(y + offset.to(tl.int64) + (1 << 42), value, mask=inside)
    elif FAULT == "far_read":
        value = tl.load(x + offset.to(tl.int64) + (1 << 42), mask=inside)
    elif FAULT == "wrong_for_256" and BLOCK == 256:
        tl.store(y - offset.to(tl.int64) - (1 << 42), value, mask=inside)
    elif FAULT == "trap":
        tl.inline_asm_elementwise("trap; mov.b32 $0, $1;", "=r,r", [offset], dtype=tl.int32, is_pure=False, pack=1)
    elif FAULT == "static_assert":
        tl.static_assert(BLOCK > 4096, "a block is too small")
    elif FAULT == "no_such_function":
        value = tl.no_such_function(value)
    elif FAULT == "not_a_power_of_two":
        value += tl.sum(tl.arange(0, 48), 0)
    elif FAULT == "endless_loop":
        while tl.load(x, volatile=True) == tl.load(x, volatile=True):
            value += 0.0
    tl.store(y + offset, value, mask=inside)


def copy(x, fault="none"):
    """Return a copy of x."""
    y = torch.empty_like(x)
    n = x.numel()
    _copy[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64, FAULT=fault)
    return y


@triton.jit(debug=True)
def _asserting(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(n % BLOCK == 0, "the block does not divide the size")
    tl.store(y + offset, tl.load(x + offset))


def asserting_copy(x):
    """Return a copy of x where the block divides its size."""
    y = torch.empty_like(x)
    n = x.numel()
    _asserting[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64)
    return y


@triton.jit
def _add_one(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset, mask=offset < n) + 1.0, mask=offset < n)


def add_one(x):
    """Return x + 1, one value of which the host has read: nothing that follows happens where nothing is launched."""
    y = torch.empty_like(x)
    _add_one[(1,)](x, y, x.numel(), BLOCK=64)
    y[0].item()
    return y


def host_fault(x, fault):
    """Return x + 1, unless the host code of a launch ends or never ends."""
    y = add_one(x)
    if fault == "abort":
        os.abort()
    if fault == "exit":
        os._exit(3)
    if fault == "first_attempt":
        # Of the device processes of this run, only the first one that comes here dies.
        first = Path(f"attempt-of-{os.getppid()}")
        if not first.exists():
            first.touch()
            os.abort()
    if fault == "endless":
        while True:
            pass
    if fault == "raises":
        raise ValueError("planted")
    if fault == "host_memory":
        bytearray(1 << 60)
    if fault == "device_memory":
        torch.empty(1 << 58, device=x.device)
    if fault == "tensor_memory":
        # As Triton raises it where a kernel needs more tensor memory than a Blackwell GPU has.
        raise OutOfResources(1024, 512, "tensor memory")
    return y


@triton.jit
def _matmul(a, b, c, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows[:, None] * n + inner[None, :])
        right = tl.load(b + inner[:, None] * n + cols[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + cols[None, :], total.to(tl.bfloat16))


def matmul(a, b):
    """Return a @ b for square bf16 matrices of a multiple of 256."""
    n = a.shape[0]
    c = torch.empty_like(a)
    _matmul[lambda meta: (n // meta["BLOCK_M"], n // meta["BLOCK_N"])](
        a, b, c, n, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3
    )
    return c


@triton.jit
def _copy_rows(x, y, cols, BLOCK: tl.constexpr, AXIS: tl.constexpr):
    row = tl.program_id(0) if AXIS == "x" else tl.program_id(1)
    offset = tl.arange(0, BLOCK)
    tl.store(y + row * cols + offset, tl.load(x + row * cols + offset, mask=offset < cols), mask=offset < cols)


def copy_rows(x):
    """Return a copy of x; rows lie along one axis of the grid."""
    rows, cols = x.shape
    y = torch.empty_like(x)
    _copy_rows[lambda meta: (rows,) if meta["AXIS"] == "x" else (1, rows)](x, y, cols, BLOCK=16, AXIS="x")
    return y


def copy_by_tuple_grid(x):
    """Return a copy of x; the grid is a number that was computed for one block."""
    y = torch.empty_like(x)
    n = x.numel()
    _copy[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64, FAULT="none")
    return y


@triton.autotune(
    configs=[triton.Config({"BLOCK": block, "FAULT": "none"}) for block in (64, 128)],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, arguments, **_: configs[:1]},
)
@triton.jit
def _pruned_copy(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset, mask=offset < n), mask=offset < n)


def pruned_copy(x):
    """Return a copy of x; production never launches the larger block."""
    y = torch.empty_like(x)
    n = x.numel()
    _pruned_copy[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    return y


def broken_production(x, fault):
    """Return x + 1 as a fixed launch does that cannot serve as reference."""
    sums, y = add_one(x), torch.empty_like(x)
    if fault == "unwritten":
        y[:-1] = sums[:-1]
        return y
    if fault == "random":
        return sums + float(int.from_bytes(os.urandom(4)))
    if fault == "reads_unwritten":
        return sums + y.clamp(0.0, 1.0)
    if fault == "out_of_bounds":
        _copy[(1,)](x, y, x.numel() + 1, BLOCK=64, FAULT="none")
        return y
    if fault == "nothing":
        return None
    if fault == "aborts":
        os.abort()
    while True:
        pass
