"""Production code whose configs leave the compiled code equal, and what is computed equal or not.

`SPARE` is a meta-parameter that no kernel reads: whatever it changes, it changes on the host.
"""

import threading

import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, y, n, factor, BLOCK: tl.constexpr, SPARE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def added(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, mask=at < n) + tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def multiplied_and_added(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    loaded = tl.load(x + at, mask=at < n)
    tl.store(y + at, loaded * factor + loaded, mask=at < n)


@triton.jit
def summed(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


@triton.jit
def counted_up(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


def _scaled(x, y, n, factor, BLOCK: tl.constexpr, SPARE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def limited_scaled(x, y, n, factor, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 64, "BLOCK is too large")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


derived = triton.heuristics({"factor": lambda arguments: float(arguments["SPARE"])})(triton.jit(_scaled))


def _nothing(arguments):
    pass


def _nothing_too(arguments):
    pass


def _fill(arguments):
    arguments["y"].fill_(1.0)


def _fill_with_spare(arguments):
    arguments["y"].fill_(float(arguments["SPARE"]))


def _accumulated(x, y, n, BLOCK: tl.constexpr, SPARE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, mask=at < n) + tl.load(x + at, mask=at < n), mask=at < n)


def _tuned(*hooks):
    """Autotune over configs that differ in `SPARE` and their hooks."""
    configs = [
        triton.Config({"BLOCK": 64, "SPARE": number}, num_warps=4, num_stages=1, pre_hook=hook)
        for number, hook in enumerate(hooks, 1)
    ]
    return triton.autotune(configs=configs, key=["n"])(triton.jit(_accumulated))


hooked = _tuned(_nothing, _nothing, _nothing_too, _fill)
hooked_by_value = _tuned(_fill_with_spare, _fill_with_spare)


def scale(x, *, factor=2.0, n=None, spare_grid=False, **options):
    """Launch with a grid that follows BLOCK, and SPARE where that is asked for."""
    y = torch.empty_like(x)
    n = x.numel() if n is None else n
    options = {"BLOCK": 64, "SPARE": 1, **options}
    scaled[lambda meta: (triton.cdiv(n, meta["BLOCK"] * (meta["SPARE"] if spare_grid else 1)),)](
        x, y, n, factor, **options
    )
    return y


def scale_with_more_programs(x, more):
    """Launch a number of programs more, for SPARE=2 alone, that have nothing to do."""
    y = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]) + more * (meta["SPARE"] - 1),)  # noqa: E731 - as usual
    scaled[grid](x, y, x.numel(), 2.0, BLOCK=64, SPARE=1)
    return y


def scale_by_heuristics(x):
    y = torch.empty_like(x)
    derived[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64, SPARE=1)
    return y


def accumulate(kernel, x):
    y = torch.zeros_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


def scale_limited(x):
    y = torch.empty_like(x)
    limited_scaled[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), 2.0, BLOCK=64)
    return y


def fuse(x):
    y = torch.empty_like(x)
    multiplied_and_added[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), 1.7, BLOCK=64)
    return y


def add_into(x, y):
    added[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)


def scale_noisily(x):
    return scale(x) + torch.rand_like(x)


def scale_counted(x, count):
    return scale(x, n=int(count.item()))


def scale_positive(x):
    return scale(x[x > 0])


@torch.inference_mode()
def scale_where_positive(x):
    """Ask for indices by an operator that torch takes apart, which it does not where nothing is differentiated."""
    (where,) = torch.where(x > 0)
    return scale(where.to(x.dtype))


@torch.inference_mode()
def scale_reshaped(x):
    return scale(x.reshape(10, -1)).flatten()


def scale_after_warming_up(x, warmed):
    """Launch twice when called for the first time."""
    if not warmed:
        warmed.append(scale(x).numel())
    return scale(x)


def scale_in_thread(x):
    made = []
    thread = threading.Thread(target=lambda: made.append(scale(x)))
    thread.start()
    thread.join()
    return made[0]


@torch.library.custom_op("kernelqual_traps::scale", mutates_args=())
def scale_operator(x: torch.Tensor) -> torch.Tensor:
    return scale(x)


@torch.library.custom_op("kernelqual_traps::scale_counted", mutates_args=())
def scale_counted_operator(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return scale(x, n=int(count.item()))


def scale_by_operators(x):
    """Call operators of Python one after the other."""
    return scale_operator(scale_operator(x))


class Scale(torch.autograd.Function):
    """A kernel in both directions; the second is launched by a thread of autograd on a GPU."""

    @staticmethod
    def forward(ctx, x):
        """Scale."""
        return scale(x)

    @staticmethod
    def backward(ctx, gradient):
        """Scale the gradient."""
        return scale(gradient.contiguous(), factor=3.0)


class CountedScale(Scale):
    """The same, with a backward pass that reads a value."""

    @staticmethod
    def backward(ctx, gradient):
        """Scale the gradient."""
        return scale(gradient.contiguous(), factor=float(gradient.sum().item()))


def differentiate(function, x):
    y = function.apply(x)
    y.sum().backward()
    return y


# What a device with memory of its own shows.


def copied_to_host(x):
    return scale(scale(x).cpu().to(x.device))


def copied_into_host_memory(x):
    host = torch.empty(x.shape)
    host.copy_(scale(x))
    return scale(x, factor=float(host[0]))


def listed(x):
    return scale(x, factor=scale(x).tolist()[0])


def printed(x):
    y = scale(x)
    str(y)
    return y


def host_table(x):
    return scale(x * torch.tensor([2.0]).to(x.device))


def host_scalar(x):
    return scale(x * torch.tensor(2.0))


def on_another_stream(x):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = scale(x)
    torch.cuda.current_stream().wait_stream(stream)
    return y


# What takes the config: SPARE=2 does otherwise than SPARE=1, with the same bytes as it happens, and nothing is forced.


def _spare(config):
    return config["SPARE"] if config else 1


def alias(x, config):
    first = torch.empty_like(x)
    second = first if _spare(config) == 2 else torch.empty_like(x)
    return _scaled_into(x, first, second, config)


def point(x, config):
    """Give the second launch one of two outputs, both of which are there."""
    first, second = torch.empty_like(x), torch.empty_like(x)
    return _scaled_into(x, first, first if _spare(config) == 2 else second, config)


def _scaled_into(x, first, second, config):
    for y in (first, second):
        scaled[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), 2.0, BLOCK=64, SPARE=_spare(config))
    return first


def choose(x, other, config):
    return scale(other if _spare(config) == 2 else x, SPARE=_spare(config))


def touch(x, config):
    y = scale(x, SPARE=_spare(config))
    return y.add_(0.0) if _spare(config) == 2 else y


def reserve(x, config):
    """Ask for scratch memory that nobody uses."""
    torch.empty(100 * _spare(config), device=x.device)
    return scale(x, SPARE=_spare(config))


def multiply(x, config):
    return scale(x, SPARE=_spare(config)) * (1.0 if _spare(config) == 2 else 1)


def look_up(x, config):
    return scale(x, SPARE=_spare(config)) * torch.tensor([1.0, float(_spare(config))], device=x.device)[0]


def add_more(x, config):
    y, nothing = scale(x, SPARE=_spare(config)), torch.zeros_like(x)
    if _spare(config) == 2:
        add_into(nothing, y)
    return y


def swap(x, config):
    first, second = scale(x, SPARE=_spare(config)), scale(x, SPARE=_spare(config))
    return (second, first) if _spare(config) == 2 else (first, second)


def leave(x, config):
    """Leave one of two equal gradients."""
    first, second = scale(x, SPARE=_spare(config)), scale(x, SPARE=_spare(config))
    x.grad = second if _spare(config) == 2 else first
    return first.clone()


def half(x, config):
    """Compute otherwise: the one whose bytes differ."""
    return scale(x, SPARE=_spare(config)) / _spare(config)


def sum_up(kernel, x):
    y = x.new_zeros(1)
    kernel[(1,)](x, y, x.numel(), BLOCK=1024, num_warps=4)
    return y
