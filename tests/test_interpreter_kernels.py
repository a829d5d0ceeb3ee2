"""What kernels meet under the interpreter as in compiled code: types of arguments, the vendors' functions."""

from pathlib import Path

from acceptance import assert_agree, run

SPEC = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import atan2, erf, isnan, rsqrt, tanh

from pytest_kernelqual import Case, Tolerance, grid, kernel_spec

CASES = [Case(n=300)]


def spec(kernel, **given):
    return kernel_spec(
        kernel=kernel,
        candidates=grid(BLOCK=[64, 256]),
        grid=lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),),
        cases=CASES,
        **given,
    )


def launch(kernel, x, *more):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), *more, BLOCK=128)
    return y


@triton.jit
def _scaled(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    # Compiled code rounds to float16 once, at the end: the factor is a tensor of float32.
    tl.store(y + at, value * factor + factor.to(tl.float32), mask=at < n)


@spec(_scaled, oracle=lambda case, inputs: inputs.x.float() * 0.1 + 0.1)
def scaled(case, seeded):
    x = seeded.normal((case.n,), dtype="float16", name="x")
    return lambda: launch(_scaled, x, 0.1)


@triton.jit
def _functions(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=1.0)
    made = erf(value) + rsqrt(value * value + 1) + atan2(value, 2.0 * value) + libdevice.expm1(value)
    tl.store(y + at, tl.where(isnan(value) != 0, 0.0, made + tanh(value)), mask=at < n)


def functions_of(case, inputs):
    x = inputs.x.double()
    return x.erf() + (x * x + 1).rsqrt() + torch.atan2(x, 2 * x) + x.expm1() + x.tanh()


@spec(_functions, oracle=functions_of, oracle_tolerance=Tolerance(rtol=1e-5, atol=1e-5))
def functions(case, seeded):
    x = seeded.normal((case.n,), name="x")
    return lambda: launch(_functions, x)


@triton.jit
def _looped(x, y, n, BLOCK: tl.constexpr):
    base = tl.program_id(0) * BLOCK
    many = n.to(tl.int64) * (1 << 32)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in tl.range(0, 3):
        at = base + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < n, other=0.0) * part.to(tl.float32)
    for start in range(many, many + 2):
        # Of the type of its bounds: 32 bits would wrap.
        total += tl.where(start * 4 > many, 1.0, 0.0)
    for twice in tl.static_range(2):
        total += twice
    tl.store(y + base + tl.arange(0, BLOCK), total, mask=base + tl.arange(0, BLOCK) < n)


@spec(_looped, oracle=lambda case, inputs: inputs.x * 3 + 3, oracle_tolerance=Tolerance(rtol=1e-5, atol=1e-5))
def looped(case, seeded):
    x = seeded.normal((case.n,), name="x")
    return lambda: launch(_looped, x)


@triton.jit
def _bodiless(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, libdevice.erfcinv(tl.load(x + at, mask=at < n, other=1.0)), mask=at < n)


@spec(_bodiless)
def bodiless(case, seeded):
    x = seeded.uniform((case.n,), name="x")
    return lambda: launch(_bodiless, x)


@triton.jit
def _half(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tanh(tl.load(x + at, mask=at < n, other=1.0)), mask=at < n)


@spec(_half)
def half(case, seeded):
    x = seeded.normal((case.n,), dtype="float16", name="x")
    return lambda: launch(_half, x)
"""


def test_arguments_and_functions(tmp_path: Path) -> None:
    """Floats have a type, libdevice has bodies, and what has none is told."""
    (tmp_path / "qual_functions.py").write_text(SPEC)
    (tmp_path / "pytest.ini").write_text("[pytest]\nkernelqual_paths = .\n")
    ended = run(tmp_path)
    told = {nodeid.split("::")[1]: case.fixed for nodeid, case in ended.cases.items()}
    assert {name: fixed and fixed.outcome for name, fixed in told.items()} == {
        **dict.fromkeys(("scaled", "functions", "looped"), "qualified"), "bodiless": "not_run", "half": "launch_error",
    }, ended.text  # fmt: skip
    reasons = {name: fixed.reason for name, fixed in told.items() if fixed}
    assert "libdevice.erfcinv has no body in the interpreter" in reasons["bodiless"]
    assert "libdevice.tanh takes numbers of one type, fp32 or fp64, and was given fp16" in reasons["half"]
    outcomes = ended.outcomes("qual_functions.py::functions::test_candidates[n300]")
    assert list(outcomes.values()) == ["qualified", "qualified"]
    assert_agree(ended)
