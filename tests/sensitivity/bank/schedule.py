"""Kernels that are right only under some schedule of warps and programs, which an interpreter does not have."""

import time

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def _reverse(x, scratch, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    # Warps exchange elements by way of global memory.
    offset = tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n, other=0.0)
    if FAULT == "no_barrier":
        # Some warps come later than others, as they do where a scheduler has others to run.
        late = tl.inline_asm_elementwise(
            "nanosleep.u32 $1; mov.b32 $0, $1;", "=r,r", [offset * 20], dtype=tl.int32, is_pure=False, pack=1
        )
        value += (late < 0).to(tl.float32)
    tl.store(scratch + offset, value, mask=offset < n)
    if FAULT != "no_barrier":
        tl.debug_barrier()
    tl.store(y + offset, tl.load(scratch + n - 1 - offset, mask=offset < n), mask=offset < n)


def reverse(x):
    """Return the elements of x in reverse order."""
    scratch, y = torch.empty_like(x), torch.empty_like(x)
    _reverse[(1,)](x, scratch, y, x.numel(), BLOCK=1024, FAULT="none", num_warps=8)
    return y


@triton.jit
def _running_sums(x, y, flags, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    # Each program starts from what the one before it has left.
    pid = tl.program_id(0)
    offset = pid * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + offset, mask=offset < n, other=0), 0)
    if pid > 0:
        if FAULT != "does_not_wait":
            while tl.atomic_add(flags + pid - 1, 0, sem="acquire") == 0:
                pass
        total += tl.load(y + pid - 1, volatile=True)
    tl.store(y + pid, total)
    tl.atomic_xchg(flags + pid, 1, sem="release")


def running_sums(x):
    """Return the sum of all elements up to the end of each block of 256."""
    n = x.numel()
    blocks = triton.cdiv(n, 256)
    y = torch.empty((blocks,), dtype=x.dtype, device=x.device)
    flags = torch.zeros((blocks,), dtype=torch.int32, device=x.device)
    _running_sums[(blocks,)](x, y, flags, n, BLOCK=256, FAULT="none", num_warps=1)
    return y


@triton.jit
def _add_float(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + offset, mask=offset < n, other=0.0), 0)
    if FAULT == "lost_update":
        tl.store(y, tl.load(y, volatile=True) + total)
    else:
        tl.atomic_add(y, total)


def add_float(x):
    """Return the sum of whole numbers, which floats add without rounding."""
    y = torch.zeros((1,), dtype=torch.float32, device=x.device)
    n = x.numel()
    _add_float[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=256, FAULT="none")
    return y


@triton.jit
def _swap_pairs(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = offset ^ 1
    if FAULT == "wrong_hint":
        place = tl.max_contiguous(tl.multiple_of(place, BLOCK), BLOCK)
    tl.store(y + offset, tl.load(x + place, mask=offset < n), mask=offset < n)


def swap_pairs(x):
    """Return x with each element at even places swapped with the next."""
    y = torch.empty_like(x)
    n = x.numel()
    _swap_pairs[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=256, FAULT="none")
    return y


@gluon.jit
def _by_shared_memory(x, y, BLOCK: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared_layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    offset = gl.arange(0, BLOCK, layout)
    shared = gl.allocate_shared_memory(gl.float32, [BLOCK], shared_layout)
    value = gl.load(x + offset)
    if FAULT != "shared_memory_unwritten":
        shared.store(value)
    gl.store(y + offset, shared.load(layout))


@gluon.jit
def _dirty(sink, number, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared_layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    offset = gl.arange(0, BLOCK, layout)
    shared = gl.allocate_shared_memory(gl.float32, [BLOCK], shared_layout)
    shared.store((offset + number).to(gl.float32))
    gl.store(sink + offset, shared.load(layout))


def by_shared_memory(x, fault):
    """Return a copy of 1,024 elements, by way of shared memory in which another kernel has left its own."""
    y, sink = torch.empty_like(x), torch.empty((8192,), device=x.device)
    _dirty[(2048,)](sink, time.perf_counter_ns() & 0xFFFFFF, BLOCK=8192)
    _by_shared_memory[(1,)](x, y, BLOCK=1024, FAULT=fault)
    return y
