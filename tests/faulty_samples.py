"""A small project whose kernels are wrong for some of their configs, each in its own way."""

from pathlib import Path

OPS = """
import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    if FAULT == "rounds":
        x = x.to(tl.float16).to(tl.float32)
    if FAULT == "reads":
        x = x + tl.load(out_ptr + offsets, mask=mask)
    if FAULT == "drops":
        mask = mask & (offsets < n - 3)
    if FAULT == "overhangs":
        mask = offsets < n + 5
    if FAULT == "flushes":
        x = tl.where(tl.abs(x) < 1e-30, 0.0, x)
    if FAULT == "raises":
        tl.static_assert(BLOCK < 0)
    tl.store(out_ptr + offsets, x * factor, mask=mask)


def scale(x, factor):
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    _scale[grid](x, out, x.numel(), factor, BLOCK=64, FAULT="", num_warps=4)
    return out


def twice(x):
    return scale(scale(x, 3.0), 0.7)


def total(x, config=None):
    parts = (config or {"PARTS": 4})["PARTS"]
    return torch.stack([part.sum() for part in x.chunk(parts)]).sum()
"""

SPEC = """
import triton
from ops import _scale, scale, total, twice

from pytest_kernelqual import Case, Config, kernel_spec

FAULTS = [Config(BLOCK=64, FAULT=fault) for fault in ("rounds", "reads", "drops", "overhangs", "raises")]


@kernel_spec(
    kernel=_scale,
    candidates=[Config(BLOCK=32), Config(BLOCK=32, num_warps=8), *FAULTS],
    cases=[Case(n=100), Case(n=1000, interpreter={"n": 70})],
    key=("n",),
)
def scaled(case, seeded):
    x = seeded.normal((case.n,), name="x")
    return lambda: scale(x, 0.7)


@kernel_spec(
    kernel=_scale,
    candidates=[Config(BLOCK=128, FAULT="rounds")],
    cases=[Case(n=100)],
    screen="it rounds",
)
def scaled_twice(case, seeded):
    x = seeded.normal((case.n,), name="x")
    return lambda: twice(x)


@kernel_spec(
    kernel=_scale,
    candidates=[Config(BLOCK=64, FAULT="flushes")],
    cases=[Case(n=90)],
    profiles=("denormals",),
    screen="it flushes",
)
def scaled_denormals(case, seeded):
    x = seeded.normal((case.n,), name="x")
    return lambda: scale(x, 0.7)


NAMELESS = [triton.jit(_scale.fn)]


@kernel_spec(kernel=NAMELESS[0], candidates=[Config(FAULT="rounds")], cases=[Case(n=100)], screen="it rounds")
def scaled_nameless(case, seeded):
    x = seeded.normal((case.n,), name="x")
    out = seeded.zeros((case.n,), name="out")
    return lambda: NAMELESS[0][lambda meta: (2,)](x, out, case.n, 0.7, BLOCK=64, FAULT="")


@kernel_spec(candidates=[Config(PARTS=3)], cases=[Case(n=1000)])
def totals(case, seeded):
    x = seeded.normal((case.n,), name="x", std=1000.0)
    return lambda config: total(x, config)
"""


def write_project(folder: Path) -> Path:
    """Write the project, and return its folder."""
    kernels = folder / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "ops.py").write_text(OPS)
    (kernels / "qual_ops.py").write_text(SPEC)
    return folder
