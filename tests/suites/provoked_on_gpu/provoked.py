"""Product code whose faults show only where launches are provoked, and sound code that leans on the device as hard."""

import torch
import triton
import triton.language as tl

# A slot of shared memory for each of 256 threads; nobody has written it.
_READ_SHARED = tl.constexpr("""
{
    .shared .align 4 .b32 hole[256];
    .reg .b32 at, place;
    mov.u32 place, %tid.x;
    shl.b32 place, place, 2;
    mov.u32 at, hole;
    add.u32 at, at, place;
    ld.volatile.shared.u32 $0, [at];
    xor.b32 at, $1, $1;
    add.u32 $0, $0, at;
}
""")

# Each thread stores its value and reads that of the thread 128 further on; the upper half is late by 5 us.
_EXCHANGE = """
{{
    .shared .align 4 .b32 slots[256];
    .reg .b32 base, at, place;
    .reg .b64 start, now;
    .reg .pred again;
    mov.u32 place, %tid.x;
    mov.u32 base, slots;
    setp.lt.u32 again, place, 128;
    @again bra store;
    mov.u64 start, %globaltimer;
late:
    mov.u64 now, %globaltimer;
    sub.u64 now, now, start;
    setp.lt.u64 again, now, 5000;
    @again bra late;
store:
    shl.b32 at, place, 2;
    add.u32 at, base, at;
    st.volatile.shared.u32 [at], $1;
    {barrier}
    add.u32 place, place, 128;
    and.b32 place, place, 255;
    shl.b32 at, place, 2;
    add.u32 at, base, at;
    ld.volatile.shared.u32 $0, [at];
}}
"""
_EXCHANGE_SOUND = tl.constexpr(_EXCHANGE.format(barrier="bar.sync 0;"))
_EXCHANGE_BARE = tl.constexpr(_EXCHANGE.format(barrier=""))

_WAIT_60_US = tl.constexpr("""
{
    .reg .b64 start, now;
    .reg .pred again;
    mov.u64 start, %globaltimer;
wait:
    mov.u64 now, %globaltimer;
    sub.u64 now, now, start;
    setp.lt.u64 again, now, 60000;
    @again bra wait;
    mov.b32 $0, $1;
}
""")


@triton.jit
def _shared(x, y, FAULT: tl.constexpr):
    """Double 256 numbers a program; one thread a number, so that each finds its own slot."""
    offset = tl.program_id(0) * 256 + tl.arange(0, 256)
    value = tl.load(x + offset)
    bits = value.to(tl.int32, bitcast=True)
    if FAULT == "reads_shared":
        hole = tl.inline_asm_elementwise(_READ_SHARED, "=r,r", [bits], dtype=tl.int32, is_pure=False, pack=1)
        value += (hole & 1).to(tl.float32)
    elif FAULT == "copies_shared":
        hole = tl.inline_asm_elementwise(_READ_SHARED, "=r,r", [bits], dtype=tl.int32, is_pure=False, pack=1)
        value = hole.to(tl.float32, bitcast=True)
    elif FAULT == "masked_shared":
        hole = tl.inline_asm_elementwise(_READ_SHARED, "=r,r", [bits], dtype=tl.int32, is_pure=False, pack=1)
        value = (bits ^ (hole & 0)).to(tl.float32, bitcast=True)
    tl.store(y + offset, value + value)


@triton.jit
def _exchange(x, y, BARRIER: tl.constexpr):
    """Swap the halves of 256 numbers through shared memory."""
    offset = tl.program_id(0) * 256 + tl.arange(0, 256)
    bits = tl.load(x + offset).to(tl.int32, bitcast=True)
    if BARRIER:
        other = tl.inline_asm_elementwise(_EXCHANGE_SOUND, "=r,r", [bits], dtype=tl.int32, is_pure=False, pack=1)
    else:
        other = tl.inline_asm_elementwise(_EXCHANGE_BARE, "=r,r", [bits], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y + offset, other.to(tl.float32, bitcast=True))


@triton.jit
def _neighbours(flags, y, programs, MODE: tl.constexpr):
    """Tell of the next program that it has begun.

    "barrier" waits until all have, "none" does not look, and "hopes" that all run at once.
    """
    me = tl.program_id(0)
    tl.atomic_add(flags + me, 1)
    if MODE == "barrier":
        tl.atomic_add(flags + programs, 1)
        while tl.atomic_add(flags + programs, 0) < programs:
            pass
    elif MODE == "hopes":
        me = tl.inline_asm_elementwise(_WAIT_60_US, "=r,r", [me], dtype=tl.int32, is_pure=False, pack=1)
    seen = 1
    if MODE != "none":
        seen = tl.atomic_add(flags + (me + 1) % programs, 0)
    tl.store(y + me, seen)


@triton.jit
def _row_sums(x, y, n, BLOCK: tl.constexpr):
    """Add the numbers of a row, which goes through shared memory."""
    row = tl.program_id(0)
    offset = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + offset, mask=offset < n, other=0.0)
    tl.store(y + row, tl.sum(value))


@triton.jit
def _sorted_rows(x, y, BLOCK: tl.constexpr):
    """Sort rows and add up what came before, which goes through shared memory many times."""
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.cumsum(tl.sort(tl.load(x + offset))))


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


@triton.jit
def _histogram(x, y, n, BLOCK: tl.constexpr):
    """Count in any order, which integers do not mind."""
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    tl.atomic_add(y + tl.load(x + offset, mask=inside, other=0), 1, mask=inside)


def shared(x, fault="none"):
    """Return 2 x, for a multiple of 256 numbers."""
    y = torch.empty_like(x)
    _shared[(x.numel() // 256,)](x, y, FAULT=fault, num_warps=8)
    return y


def exchange(x, *, barrier=True):
    """Return x with the halves of each 256 numbers swapped."""
    y = torch.empty_like(x)
    _exchange[(x.numel() // 256,)](x, y, BARRIER=barrier, num_warps=8)
    return y


def neighbours(flags, mode="none"):
    """Return ones: as many programs of 1,024 threads as the device can hold at once each look at the next one."""
    programs = flags.numel() - 1
    y = torch.empty(programs, dtype=torch.int32, device=flags.device)
    flags.zero_()
    _neighbours[(programs,)](flags, y, programs, MODE=mode, num_warps=32)
    flags[-1:].zero_()
    return y


def row_sums(x):
    """Return the sum of each row."""
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    _row_sums[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=4)
    return y


def sorted_rows(x):
    """Return the running sums of each sorted row."""
    y = torch.empty_like(x)
    _sorted_rows[(x.shape[0],)](x, y, BLOCK=x.shape[1], num_warps=4)
    return y


def matmul(a, b):
    """Return a @ b for square bf16 matrices of a multiple of 256."""
    n = a.shape[0]
    c = torch.empty_like(a)
    _matmul[lambda meta: (n // meta["BLOCK_M"], n // meta["BLOCK_N"])](
        a, b, c, n, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3
    )
    return c


def histogram(x, bins, block=1024):
    """Return how often each number occurs."""
    y = torch.zeros(bins, dtype=torch.int32, device=x.device)
    _histogram[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y


def with_dropout(x, p):
    """Return row sums of x, of which a part is dropped at random."""
    return row_sums(torch.nn.functional.dropout(x, p))


def on_side_stream(x):
    """Return row sums that another stream computed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = row_sums(x)
    torch.cuda.current_stream().wait_stream(stream)
    return y
