"""Specs of kernels that flag-gems ships, behind its launch cache (`libentry`) and its own tuner (`libtuner`).

The library asks for a vendor by an environment variable where it finds no GPU, and cannot be imported without either.
"""

import os

import torch

os.environ.setdefault("GEMS_VENDOR", "amd" if torch.version.hip else "nvidia")

import flag_gems
from flag_gems.ops.argmax import argmax_kernel_inner
from flag_gems.ops.bmm import bmm, bmm_kernel
from flag_gems.ops.groupnorm import group_norm_kernel
from flag_gems.ops.layernorm import layer_norm_backward_kernel, layer_norm_persistent_kernel
from flag_gems.ops.mm import mm, mm_kernel_general
from flag_gems.ops.rms_norm import rms_norm_kernel
from flag_gems.ops.softmax import softmax_backward_kernel_inner, softmax_kernel_inner

from pytest_kernelqual import Case, grid, kernel_spec

REDUCES = "warps or tiles change the order of a sum"
WARPS = grid(num_warps=[2, 4, 8, 16])
ROWS = [Case(rows=1024, cols=2000, dtype="float16")]


def rows_of(case, seeded, name, **given):
    return seeded.normal((case.rows, case.cols), dtype=case.dtype, name=name, **given)


@kernel_spec(kernel=rms_norm_kernel, candidates=WARPS, cases=ROWS, screen=REDUCES)
def gems_rms_norm(case, seeded):
    x = rows_of(case, seeded, "x")
    weight = seeded.normal((case.cols,), dtype=case.dtype, name="weight")
    return lambda: flag_gems.rms_norm(x, (case.cols,), weight, 1e-6)


@kernel_spec(kernel=layer_norm_persistent_kernel, cases=ROWS, screen=REDUCES)
def gems_layer_norm(case, seeded):
    x = rows_of(case, seeded, "x")
    weight, bias = (seeded.normal((case.cols,), dtype=case.dtype, name=name) for name in ("weight", "bias"))
    return lambda: flag_gems.layer_norm(x, (case.cols,), weight, bias)


@kernel_spec(kernel=layer_norm_backward_kernel, cases=ROWS, screen=REDUCES)
def gems_layer_norm_backward(case, seeded):
    x, upstream = rows_of(case, seeded, "x"), rows_of(case, seeded, "upstream")
    weight, bias = (seeded.normal((case.cols,), dtype=case.dtype, name=name) for name in ("weight", "bias"))
    mean, rstd = (seeded.uniform((case.rows,), low=0.1, dtype=case.dtype, name=name) for name in ("mean", "rstd"))
    mask = [True, True, True]
    return lambda: flag_gems.layer_norm_backward(upstream, x, (case.cols,), mean, rstd, weight, bias, mask)


@kernel_spec(kernel=group_norm_kernel, candidates=WARPS, cases=[Case(batch=8, channels=64, size=500)], screen=REDUCES)
def gems_group_norm(case, seeded):
    x = seeded.normal((case.batch, case.channels, case.size), name="x")
    weight, bias = (seeded.normal((case.channels,), name=name) for name in ("weight", "bias"))
    sizes = case.batch, case.channels, case.size
    return lambda: flag_gems.group_norm(x, weight, bias, *sizes, group=8)


@kernel_spec(kernel=softmax_kernel_inner, candidates=WARPS, cases=ROWS, screen=REDUCES)
def gems_softmax(case, seeded):
    x = rows_of(case, seeded, "x")
    return lambda: flag_gems.softmax(x, -1)


@kernel_spec(kernel=softmax_backward_kernel_inner, cases=ROWS, screen=REDUCES)
def gems_softmax_backward(case, seeded):
    upstream, probabilities = rows_of(case, seeded, "upstream"), rows_of(case, seeded, "probabilities")
    dtype = getattr(torch, case.dtype)
    return lambda: flag_gems.softmax_backward(upstream, probabilities, -1, dtype)


@kernel_spec(kernel=argmax_kernel_inner, candidates=WARPS, cases=ROWS)
def gems_argmax(case, seeded):
    x = rows_of(case, seeded, "x")
    return lambda: flag_gems.argmax(x, dim=-1)


@kernel_spec(kernel=mm_kernel_general, cases=[Case(m=1000, n=512, k=512, dtype="float16")], screen=REDUCES)
def gems_mm(case, seeded):
    a = seeded.normal((case.m, case.k), dtype=case.dtype, name="a")
    b = seeded.normal((case.k, case.n), dtype=case.dtype, name="b")
    return lambda: mm(a, b)  # `flag_gems.mm` is another kernel on some architectures


@kernel_spec(kernel=bmm_kernel, cases=[Case(batch=4, m=500, n=256, k=128, dtype="float16")], screen=REDUCES)
def gems_bmm(case, seeded):
    a = seeded.normal((case.batch, case.m, case.k), dtype=case.dtype, name="a")
    b = seeded.normal((case.batch, case.k, case.n), dtype=case.dtype, name="b")
    return lambda: bmm(a, b)
