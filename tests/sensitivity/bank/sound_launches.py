"""Launches that are right under every config, though they look as if they were not."""

import random
import threading
from dataclasses import dataclass

import torch
import triton
import triton.language as tl


def tiles(meta):
    """Return the grid of a kernel over n elements."""
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


@triton.jit
def _add(x, y, z, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    tl.store(z + offset, tl.load(x + offset, mask=inside) + tl.load(y + offset, mask=inside), mask=inside)


def add(x, y, out=None):
    """Return x + y."""
    out = torch.empty_like(x) if out is None else out
    _add[tiles](x, y, out, x.numel(), BLOCK=64)
    return out


@triton.jit
def _copy_rows(x, y, cols, x_row, x_col, y_row, y_col, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        offset = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * x_row + offset * x_col, mask=offset < cols)
        tl.store(y + row * y_row + offset * y_col, value, mask=offset < cols)


def copy_rows(x, y):
    """Copy a matrix into another one, whatever the strides of both."""
    rows, cols = x.shape
    _copy_rows[(rows,)](x, y, cols, *x.stride(), *y.stride(), BLOCK=16)
    return y


def column_major(x):
    """Return a copy of x with its columns in a row."""
    rows, cols = x.shape
    return copy_rows(x, torch.empty((cols, rows), dtype=x.dtype, device=x.device).T)


def spaced(x):
    """Return a copy of x with gaps between its rows, which nobody writes."""
    rows, cols = x.shape
    return copy_rows(x, torch.empty((rows, cols + 5), dtype=x.dtype, device=x.device)[:, :cols])


def middle(x):
    """Return the rows of a copy of x but the first and the last, which are left unwritten."""
    rows, cols = x.shape
    y = torch.empty((rows + 2, cols), dtype=x.dtype, device=x.device)[1:-1]
    return copy_rows(x, y)


def by_scratch(x, y):
    """Return x + y by way of scratch memory, most of which is never written."""
    n = x.numel()
    scratch = torch.empty((4 * n,), dtype=x.dtype, device=x.device)
    add(x, y, scratch)
    return add(scratch[:n], y)


@dataclass
class Statistics:
    """What a launch gives beside its result."""

    largest: torch.Tensor
    count: int
    name: str = "statistics"


def nested(x, y):
    """Return outputs in every nesting: tensors, numbers, None, an empty tensor."""
    total = add(x, y)
    return {
        "sum": total,
        "statistics": Statistics(total.max(), total.numel()),
        "parts": [total[:3], (total[3:6].clone(), None)],
        "empty": total[:0],
        "flags": total > 0,
        "pairs": torch.complex(total, x),
    }


def empty_part(x, y):
    """Return x + y, and the sum of no elements, for which the kernel is launched on an empty grid."""
    return add(x, y), add(x[:0], y[:0])


class Product(torch.autograd.Function):
    """The product of its inputs, with gradients of both from kernels."""

    @staticmethod
    def forward(ctx, x, y):
        """Return x y."""
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        """Return the gradients, each a sum with zeros so that the kernel makes it."""
        x, y = ctx.saved_tensors
        return add(grad * y, torch.zeros_like(y)), add(grad * x, torch.zeros_like(x))


def with_gradients(x, y):
    """Return the product, and leave gradients that two calls of backward have added up."""
    z = Product.apply(x, y)
    z.sum().backward(retain_graph=True)
    z.square().sum().backward()
    return z


def _clear(arguments):
    arguments["z"].zero_()


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, pre_hook=_clear) for block in (64, 128, 256)],
    key=["n"],
    reset_to_zero=["z"],
)
@triton.jit
def _fold(x, z, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(z + offset % 64, tl.load(x + offset, mask=offset < n, other=0), mask=offset < n)


def folded(x):
    """Return 64 sums over x, cleared by the hook of each config."""
    z = torch.empty((64,), dtype=x.dtype, device=x.device)
    _fold[tiles](x, z, x.numel())
    return z


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}) for block in (64, 128)], key=["n"], restore_value=["x"]
)  # fmt: skip
@triton.jit
def _increment(x, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offset, tl.load(x + offset, mask=offset < n) + 1.0, mask=offset < n)


def increment_(x):
    """Add one to x in place; tuning would have to restore it."""
    _increment[tiles](x, x.numel())


_workspaces = {}


def by_cached_workspace(x, y):
    """Return x + y by way of a workspace that is kept from call to call."""
    if x.device not in _workspaces:
        _workspaces[x.device] = torch.empty((4096,), dtype=x.dtype, device=x.device)
    return add(add(x, y, _workspaces[x.device][: x.numel()]), y)


_tables = {}


def by_cached_table(x):
    """Return x plus a table that the first call computes."""
    key = (x.numel(), x.device)
    if key not in _tables:
        _tables[key] = torch.arange(x.numel(), dtype=x.dtype, device=x.device).square()
    return add(x, _tables[key])


_by_config = {}


def by_workspace_of_config(x, y, config):
    """Return x + y by way of a workspace that each config has for itself."""
    size = config["SIZE"] if config else 1024
    if size not in _by_config:
        _by_config[size] = torch.empty((size,), dtype=x.dtype, device=x.device)
    return add(add(x, y, _by_config[size][: x.numel()]), y)


def counts_steps(x, step):
    """Return x plus the number of the step, which is counted in place."""
    step += 1
    return add(x, step.to(x.dtype).expand(x.shape).contiguous())


def random_offset(x):
    """Return x with noise from the generators of torch and Python."""
    noise = torch.rand(x.shape, device=x.device) + random.random()
    return add(x, noise)


def beside(x, y):
    """Return x + y, computed beside the current stream, or in another thread, and waited for."""
    out = torch.empty_like(x)
    if not x.is_cuda:
        thread = threading.Thread(target=add, args=(x, y, out))
        thread.start()
        thread.join()
        return out
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        torch.cuda._sleep(1_000_000)
        add(x, y, out)
    main.wait_stream(side)
    return out


def aliasing(x, y):
    """Add y to x in place; return x, a view of it and y."""
    add(x, y, x)
    return x, x[1::2], y
