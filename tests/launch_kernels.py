"""Kernels and production entry points for the launch tests; loaded once interpreted and once compiled."""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.runtime.autotuner import Autotuner

hooked_blocks = []
"""`BLOCK` as the hooks of `hooked` saw it."""


@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr, SCALE: tl.constexpr = 1):  # noqa: ANN001, ANN201, D103, N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * SCALE, mask=at < n)


@triton.jit
def times_warps(x, y, n, BLOCK: tl.constexpr, num_warps: tl.constexpr):  # noqa: ANN001, ANN201, D103, N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * num_warps, mask=at < n)


@triton.jit
def negated(x, y, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, D103, N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, -tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def limited(x, y, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, D103, N803
    tl.static_assert(BLOCK <= 64, "BLOCK is too large")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def broken(x, y, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, ARG001, D103, N803
    tl.store(y + tl.arange(0, BLOCK), tl.arange(0, 2 * BLOCK))


@gluon.jit
def gluon_copy(x, y, n, BLOCK: gl.constexpr, WARPS: gl.constexpr):  # noqa: ANN001, ANN201, D103, N803
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(y + at, gl.load(x + at, mask=at < n), mask=at < n)


def _copy(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):  # noqa: ANN001, ANN202, N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + at, tl.load(x + at))
    else:
        tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def _plain(x, y, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN202, N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def _configs(pre_hook=None):  # noqa: ANN001, ANN202
    return [
        triton.Config({"BLOCK": 64}, num_warps=2, num_stages=1, pre_hook=pre_hook),
        triton.Config({"BLOCK": 128}, num_warps=4, num_stages=2, pre_hook=pre_hook),
    ]


def _hook(arguments):  # noqa: ANN001, ANN202
    hooked_blocks.append(arguments["BLOCK"])


def _small_enough(configs, arguments, **_options):  # noqa: ANN001, ANN003, ANN202
    return [config for config in configs if config.kwargs["BLOCK"] <= arguments["n"]]


class LibraryAutotuner(Autotuner):
    """An autotuner as libraries make them: with a `run` of its own."""

    def run(self, *_args, **_keywords):  # noqa: ANN002, ANN003, ANN201
        """Fail: benchmarking is what must not happen."""
        raise AssertionError("benchmarked")


divisible = {"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0}

derived = triton.heuristics(divisible)(triton.jit(_copy))
block_derived = triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"])})(
    triton.jit(_plain)
)
tuned = triton.autotune(configs=_configs(), key=["n"])(triton.jit(_plain))
hooked = triton.autotune(configs=_configs(_hook), key=["n"], reset_to_zero=["x"])(triton.jit(_plain))
pruned = triton.autotune(configs=_configs(), key=["n"], prune_configs_by={"early_config_prune": _small_enough})(
    triton.jit(_plain)
)
tuned_over_derived = triton.autotune(configs=_configs(), key=["n"])(triton.heuristics(divisible)(triton.jit(_copy)))
derived_over_tuned = triton.heuristics({"EVEN": lambda arguments: arguments["n"] % 1024 == 0})(
    triton.autotune(configs=_configs(), key=["n"])(triton.jit(_copy))
)
library_tuned = LibraryAutotuner(triton.jit(_plain), ["x", "y", "n", "BLOCK"], _configs(), ["n"], None, None)


def by_lambda(kernel, x, **named):  # noqa: ANN001, ANN003, ANN201
    """Launch with a grid that follows BLOCK."""
    y = torch.empty_like(x)
    n = x.numel()
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, **named)
    return y


def by_tuple(kernel, x, *more, block=64, **named):  # noqa: ANN001, ANN002, ANN003, ANN201
    """Launch with a tuple grid, computed by the host for `block`."""
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, block),)](x, y, n, *more, **named)
    return y
