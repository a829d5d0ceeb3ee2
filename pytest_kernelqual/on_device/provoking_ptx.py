"""PTX of the kernels that provoke: one leaves a pattern behind, one keeps a part of the device busy.

PTX and not Triton: a kernel of Triton decides neither what it leaves in all shared memory nor in which registers, and
its launches would pass through the hooks that prove those of the kernel under test.
"""

DIRTY = "kernelqual_dirty"
"""(word, bytes, nowhere): leave the word in so many bytes of shared memory and in most registers."""
DIRTY_THREADS = 1024
NOISE = "kernelqual_noise"
"""(stop, longest_ns): compute until the word at `stop` is not 0, at most so long, some blocks less."""
NOISE_THREADS = 256

_KEPT = 48  # with 1,024 threads a thread has 64 registers
_ROUNDS = 32  # of arithmetic between two looks at the time
_MOST_LOOKS = 100_000  # should the clock stand still: some 10 ms


def source() -> bytes:
    """Return the module; every driver of a GPU from 2018 on compiles it."""
    kept = ", ".join(f"%k{number}" for number in range(_KEPT))
    load = "\n".join(f"    ld.volatile.shared.u32 %k{number}, [memory + {4 * number}];" for number in range(_KEPT))
    store = "\n".join(f"    st.volatile.global.u32 [%where + {4 * number}], %k{number};" for number in range(_KEPT))
    multiply = "\n".join(["    fma.rn.f32 %x, %x, %y, %y;"] * _ROUNDS)
    return _SOURCE.format(
        dirty=DIRTY,
        dirty_threads=DIRTY_THREADS,
        noise=NOISE,
        noise_threads=NOISE_THREADS,
        kept=kept,
        load=load,
        store=store,
        multiply=multiply,
        most_looks=_MOST_LOOKS,
    ).encode("ascii")


# The loads are volatile and their values are stored on a path that is never taken, so that the compiler must keep all
# of them in registers at once. `bytes` is never 0, nor is `longest_ns`.
_SOURCE = """\
.version 7.0
.target sm_75
.address_size 64

.extern .shared .align 16 .b8 memory[];

.visible .entry {dirty}(.param .u32 word, .param .u32 bytes, .param .u64 nowhere)
.maxntid {dirty_threads}, 1, 1
{{
    .reg .pred %past, %never;
    .reg .b32 %word, %bytes, %at, %step, %base, %to, {kept};
    .reg .b64 %where;
    ld.param.u32 %word, [word];
    ld.param.u32 %bytes, [bytes];
    ld.param.u64 %where, [nowhere];
    mov.u32 %at, %tid.x;
    shl.b32 %at, %at, 2;
    mov.u32 %step, %ntid.x;
    shl.b32 %step, %step, 2;
    mov.u32 %base, memory;
fill:
    setp.ge.u32 %past, %at, %bytes;
    @%past bra filled;
    add.u32 %to, %base, %at;
    st.volatile.shared.u32 [%to], %word;
    add.u32 %at, %at, %step;
    bra.uni fill;
filled:
    bar.sync 0;
{load}
    setp.ne.u32 %never, %bytes, 0;
    @%never bra done;
{store}
done:
    ret;
}}

.visible .entry {noise}(.param .u64 stop, .param .u64 longest_ns)
.maxntid {noise_threads}, 1, 1
{{
    .reg .pred %other, %over;
    .reg .b32 %thread, %quarter, %word, %looks;
    .reg .b64 %stop, %longest, %start, %now, %quarters;
    .reg .f32 %x, %y;
    .shared .align 4 .b32 told;
    ld.param.u64 %stop, [stop];
    ld.param.u64 %longest, [longest_ns];
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %other, %thread, 0;
    mov.u32 %quarter, %ctaid.x;
    and.b32 %quarter, %quarter, 3;
    add.u32 %quarter, %quarter, 1;
    cvt.u64.u32 %quarters, %quarter;
    mul.lo.u64 %longest, %longest, %quarters;
    shr.u64 %longest, %longest, 2;
    mov.u32 %word, 0;
    @!%other st.volatile.shared.u32 [told], %word;
    bar.sync 0;
    mov.u32 %looks, 0;
    cvt.rn.f32.u32 %x, %thread;
    mov.f32 %y, 0f3F000000;
    mov.u64 %start, %globaltimer;
look:
{multiply}
    @%other bra here;
    ld.volatile.global.u32 %word, [%stop];
    st.volatile.shared.u32 [told], %word;
here:
    ld.volatile.shared.u32 %word, [told];
    setp.ne.u32 %over, %word, 0;
    @%over bra done;
    add.u32 %looks, %looks, 1;
    setp.ge.u32 %over, %looks, {most_looks};
    @%over bra done;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %over, %now, %longest;
    @%over bra look;
done:
    setp.ne.u64 %over, %longest, 0;
    @%over bra out;
    st.volatile.global.f32 [%stop], %x;
out:
    ret;
}}
"""
