"""Launches that remember: caches, hooks, streams, second calls."""

import threading

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset, mask=offset < n), mask=offset < n)


def copy(x, block=64):
    """Return a copy of x."""
    y = torch.empty_like(x)
    n = x.numel()
    _copy[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=block)
    return y


_by_shape = {}


def remembered_copy(x):
    """Return a copy of x, remembered by shape as a careless cache does."""
    if x.shape not in _by_shape:
        _by_shape[x.shape] = copy(x)
    return _by_shape[x.shape]


_by_block = {}


def remembered_by_block(x, block):
    """Return a copy of x; blocks other than production's are remembered, whatever x holds by then."""
    if block is None:
        return copy(x)
    if block not in _by_block:
        _by_block[block] = copy(x, block)
    return _by_block[block]


_calls = {}


def counted(x, fault):
    """Return x + 1; faults show on some calls of a candidate only."""
    copy(x)[0].item()  # a call in which nothing is launched ends here, and does not count
    _calls[fault] = _calls.get(fault, 0) + 1
    if fault == "second_call" and _calls[fault] == 2:
        return x + 2.0
    if fault == "every_other_call":
        return x + 1.0 + _calls[fault] % 2
    if fault == "all_but_first" and _calls[fault] > 1:
        return x + 2.0
    return x + 1.0


def _clear_output(arguments):
    arguments["y"].zero_()


def _clear_input(arguments):
    arguments["x"].zero_()


def _clear_both(arguments):
    arguments["x"].zero_()
    arguments["y"].zero_()


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64}, pre_hook=_clear_output),
        triton.Config({"BLOCK": 128}, pre_hook=_clear_output),
        triton.Config({"BLOCK": 256}),
        triton.Config({"BLOCK": 512}, pre_hook=_clear_input),
        triton.Config({"BLOCK": 1024}, pre_hook=_clear_both),
    ],
    key=["n"],
)
@triton.jit
def _add_to(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + offset % 64, tl.load(x + offset, mask=offset < n, other=0), mask=offset < n)


def folded(x):
    """Return 64 sums over x; the hook of its config clears them first."""
    y = torch.empty((64,), dtype=x.dtype, device=x.device)
    n = x.numel()
    _add_to[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    return y


_counters = {}


@triton.jit
def _last_adds(x, partial, count, y, n, BLOCK: tl.constexpr, PARTS: tl.constexpr, FAULT: tl.constexpr):
    # The last program to come adds up what all have left, and sets the counter back for the next launch.
    pid = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(pid * BLOCK, n, PARTS * BLOCK):
        offset = start + tl.arange(0, BLOCK)
        total += tl.load(x + offset, mask=offset < n, other=0)
    tl.store(partial + pid, tl.sum(total, 0))
    if tl.atomic_add(count, 1, sem="acq_rel") == PARTS - 1:
        lane = tl.arange(0, PARTS)
        tl.store(y, tl.sum(tl.load(partial + lane, volatile=True), 0))
        if FAULT != "counter_left":
            tl.store(count, 0)


def last_adds(x):
    """Return the sum of x by one launch of several programs, with a counter that is kept from call to call."""
    if x.device not in _counters:
        _counters[x.device] = torch.zeros((1,), dtype=torch.int32, device=x.device)
    parts = 8
    partial = torch.empty((parts,), dtype=torch.int32, device=x.device)
    y = torch.empty((1,), dtype=torch.int32, device=x.device)
    _last_adds[(parts,)](
        x, partial, _counters[x.device], y, x.numel(), BLOCK=64, PARTS=parts, FAULT="none", num_warps=1
    )
    return y


def on_side_stream(x, fault):
    """Return x + 1, computed beside the current stream: on another one, or without streams in another thread."""
    if not x.is_cuda:
        return _in_thread(x, fault)
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    if fault == "starts_too_early":
        torch.cuda._sleep(20_000_000)  # the stream is behind with other work
    y = torch.empty_like(x)
    if fault != "starts_too_early":
        side.wait_stream(main)
    with torch.cuda.stream(side):
        if fault == "read_too_early":
            torch.cuda._sleep(20_000_000)
        torch.add(x, 1.0, out=y)
    if fault != "read_too_early":
        main.wait_stream(side)
        return y
    return y * 1.0


def _in_thread(x, fault):
    y = torch.empty_like(x)
    go = threading.Event()

    def work():
        go.wait(10.0)
        torch.add(x, 1.0, out=y)

    thread = threading.Thread(target=work)
    thread.start()
    late = y * 1.0 if fault == "read_too_early" else None
    go.set()
    thread.join()
    return y if late is None else late
