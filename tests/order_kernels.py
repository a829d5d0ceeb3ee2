"""Kernels whose arithmetic order is read, or must not be."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

# What is said of kernels that hold what cannot be read.
UNKNOWN = {
    "external": "the operation tt.extern_elementwise is not understood",
    "assembly": "the operation tt.elementwise_inline_asm is not understood",
    "locked": "a loop whose end is computed by its body (scf.while)",
    "looking": "a loop whose end is computed by its body (scf.while)",
    "exchanged": "the operation tt.atomic_cas is not understood",
    "float_atomic": "fadd: the order of atomics on floats is decided at run time",
    "ticket": "add: the value before it depends on the order at run time",
    "reordered": "the operation tt.cat is not understood",
    "specialised": "warp-specialised or it cannot be lowered with one stage",
    "unrolled_through_memory": "argument 1 is loaded from where it was stored to before",
    "called": "2 functions instead of one: calls that are not inlined",
}


@triton.jit
def external(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + p, libdevice.tanh(tl.load(x + p)))


@triton.jit
def assembly(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    moved = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + p)], tl.float32, is_pure=True, pack=1)
    tl.store(y + p, moved)


@triton.jit
def locked(x, y, i, n, BLOCK: tl.constexpr):
    while tl.atomic_cas(i, 0, 1) == 1:
        pass
    p = tl.arange(0, BLOCK)
    tl.store(y + p, tl.load(y + p) + tl.load(x + p))
    tl.atomic_xchg(i, 0)


@triton.jit
def looking(x, y, i, n, BLOCK: tl.constexpr):
    at = 0
    total = 0.0
    while at < n:
        total += tl.sum(tl.load(x + at + tl.arange(0, BLOCK)))
        at += BLOCK
    tl.store(y, total)


@triton.jit
def exchanged(x, y, i, n, BLOCK: tl.constexpr):
    tl.store(i + 1, tl.atomic_cas(i, 0, 1))


@triton.jit
def float_atomic(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + p % 7, tl.load(x + p))


@triton.jit
def ticket(x, y, i, n, BLOCK: tl.constexpr):
    place = tl.atomic_add(i, 1)
    tl.store(y + place, tl.load(x + tl.program_id(0)))


@triton.jit
def histogram(x, y, i, n, BLOCK: tl.constexpr):
    total = tl.zeros((16,), tl.int32)
    for start in range(0, n, BLOCK):
        total += tl.histogram(tl.load(i + start + tl.arange(0, BLOCK)) & 15, 16)
    tl.store(i + tl.arange(0, 16), total)


@triton.jit
def reordered(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.arange(0, BLOCK)
    tl.store(y + tl.arange(0, 2 * BLOCK), tl.cat(tl.load(x + p), tl.load(y + p), can_reorder=True))


@triton.jit
def _products(x, y, n, STAGES: tl.constexpr, SPECIALISED: tl.constexpr):
    r = tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for s in tl.range(0, n, 64, num_stages=STAGES, warp_specialize=SPECIALISED):
        a = tl.load(x + r[:, None] * n + s + r[None, :]).to(tl.bfloat16)
        b = tl.load(y + (s + r)[:, None] * 64 + r[None, :]).to(tl.bfloat16)
        total = tl.dot(a, b, total)
    tl.store(y + r[:, None] * 64 + r[None, :], total)


@triton.jit
def specialised(x, y, i, n, BLOCK: tl.constexpr):
    _products(x, y, n, 3, True)


@triton.jit
def staged(x, y, i, n, BLOCK: tl.constexpr):
    _products(x, y, n, BLOCK // 64, False)


@triton.jit
def multiplied(x, y, i, n, BLOCK: tl.constexpr):
    rows, r = tl.arange(0, BLOCK), tl.arange(0, 64)
    total = tl.zeros((BLOCK, 64), tl.float32)
    for s in tl.range(0, n, 64):
        a = tl.load(x + rows[:, None] * n + s + r[None, :]).to(tl.bfloat16)
        b = tl.load(x + (s + r)[:, None] * 64 + r[None, :]).to(tl.bfloat16)
        total = tl.dot(a, b, total)
    tl.store(y + rows[:, None] * 64 + r[None, :], total)


@triton.jit(noinline=True)
def _twice(a):
    return a * 2.0


@triton.jit
def called(x, y, i, n, BLOCK: tl.constexpr):
    tl.store(y + tl.program_id(0), _twice(tl.load(x + tl.program_id(0))))


@triton.jit
def doubled(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + p, tl.load(x + p, mask=p < n) * 2.0, mask=p < n)


@triton.jit
def doubled_unrolled(x, y, i, n, BLOCK: tl.constexpr):
    for part in tl.static_range(4):
        p = (tl.program_id(0) * 4 + part) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + p, tl.load(x + p, mask=p < n) * 2.0, mask=p < n)


@triton.jit
def tripled(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + p, tl.load(x + p, mask=p < n) * 3.0, mask=p < n)


@triton.jit
def times_block(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(i + p, tl.load(i + p, mask=p < n) * BLOCK, mask=p < n)


@triton.jit
def through_memory(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.arange(0, 128)
    for k in range(0, n, BLOCK):
        tl.store(y + p, tl.load(y + p) + tl.load(x + k + p))


@triton.jit
def kept_where_large(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p)
    tl.store(y + p, a, mask=a > tl.sum(a, 0))


@triton.jit
def stored_if_large(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p)
    if tl.sum(a, 0) > 1.0:
        tl.store(y + p, a)


@triton.jit
def found(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = (tl.sum(tl.load(x + p), 0) * 10.0).to(tl.int32)
    tl.store(y + p, tl.load(x + place))


@triton.jit
def faded(x, y, i, n, BLOCK: tl.constexpr):
    # A product of the iteration before is added: unrolling decides whether the two are one instruction.
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(n):
        total = (total + tl.load(x + k * n + p)) * tl.load(y + k * n + p)
    tl.store(y + p, total)


@triton.jit
def counted(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(i + (tl.load(i + p) & 7), 1, sem="relaxed")


@triton.jit
def spread(x, y, i, n, BLOCK: tl.constexpr):
    total = 0.0
    for row in range(tl.program_id(0), n, tl.num_programs(0)):
        total += tl.load(x + row)
    tl.store(y + tl.program_id(0), total)


@triton.jit
def spread_by_steps(x, y, i, n, BLOCK: tl.constexpr):
    total = 0.0
    for step in range(n):
        total += tl.load(x + step * tl.num_programs(0) + tl.program_id(0))
    tl.store(y + tl.program_id(0), total)


@triton.jit
def carried_past_a_sum(x, y, i, n, BLOCK: tl.constexpr):
    """Carry the last of each block's running sums on, picked by a sum."""
    carried = 0.0
    for start in range(0, n, BLOCK):
        p = start + tl.arange(0, BLOCK)
        sums = tl.cumsum(tl.load(x + p), 0) + carried
        tl.store(y + p, sums)
        carried = tl.sum(tl.where(p == start + BLOCK - 1, sums, 0.0), 0)


@triton.jit
def unrolled_through_memory(x, y, i, n, BLOCK: tl.constexpr):
    p = tl.arange(0, BLOCK)
    for part in tl.static_range(4):
        tl.store(y + p, tl.load(y + p) + tl.load(x + part * n + p))


@triton.jit
def taps(x, y, i, n, BLOCK: tl.constexpr, REVERSED: tl.constexpr, FAR: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(3):
        total += tl.load(x + p + (2 - tap if REVERSED else tap) * (n if FAR else 1))
    tl.store(y + p, total)


@triton.jit
def chosen_by_place(x, y, i, n, BLOCK: tl.constexpr, LIMIT: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p)
    tl.store(y + p, tl.where(p < LIMIT, a * 2.0, a + a * a))


@triton.jit
def chosen_by_program(x, y, i, n, BLOCK: tl.constexpr, LIMIT: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p)
    if tl.program_id(0) < LIMIT:
        tl.store(y + p, a * 2.0)
    else:
        tl.store(y + p, a + a * a)


@triton.jit
def stored_twice(x, y, i, n, BLOCK: tl.constexpr, SWAPPED: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + p)
    tl.store(y + p, a * (3.0 if SWAPPED else 2.0))
    tl.store(y + p, a * (2.0 if SWAPPED else 3.0))


@triton.jit
def halves(x, y, i, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, second = tl.load(x + row + p, mask=p < n // 2), tl.load(x + row + n // 2 + p, mask=p < n // 2)
    tl.store(y + row + p, first * 2.0 - second, mask=p < n // 2)
    tl.store(y + row + n // 2 + p, second * 2.0 + first, mask=p < n // 2)


@triton.jit
def largest_of_columns(x, y, i, n, BLOCK: tl.constexpr):
    largest = float("-inf")
    for start in range(0, n, BLOCK):
        p = start + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.max(tl.where(p < n // 2, tl.load(x + p), 0.0), 0))
    tl.store(y, largest)


@triton.jit
def two_passes(x, y, i, n, BLOCK: tl.constexpr, SWAPPED: tl.constexpr):
    p = tl.arange(0, BLOCK)
    for row in range(n):
        tl.store(y + row * BLOCK + p, tl.load(x + row * BLOCK + p) * (3.0 if SWAPPED else 2.0))
    for row in range(n):
        tl.store(y + row * BLOCK + p, tl.load(x + row * BLOCK + p) * (2.0 if SWAPPED else 3.0))


@triton.jit
def read_twice(x, y, i, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        p = start + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.load(x + row + p, mask=p < n, other=0.0))
    scale = tl.max(largest, 0)
    for start in range(0, n, BLOCK):
        p = start + tl.arange(0, BLOCK)
        tl.store(y + row + p, tl.load(x + row + p, mask=p < n, other=0.0) / scale, mask=p < n)
