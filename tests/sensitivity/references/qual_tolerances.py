"""Specs with a tolerance; the expected outcomes stand in test_references.py."""

import random

import torch
from doubles import _double, double

from pytest_kernelqual import Case, Config, Tolerance, grid, kernel_spec

FREE = ("SHIFT", "FAULT")
ROUNDED = [
    *grid(SHIFT=[0, 23, 7]),
    *grid(SHIFT=[23], FAULT=["not_a_number", "infinity", "minus_zero", "unwritten", "long"]),
]


def values(case, seeded):
    """Return inputs with zeros among them, doubled into themselves."""
    x = seeded.normal((case.n,), dtype=case.dtype, name="x")
    with torch.no_grad():
        x[::7] = 0.0
    return x


@kernel_spec(
    kernel=_double,
    candidates=ROUNDED,
    cases=[Case(n=100, dtype="float32")],
    grid_independent=FREE,
    tolerance=Tolerance(rtol=1e-5),
    seeds=2,
)
def relative(case, seeded):
    """Rounding is within; what is no number, or unwritten, or another zero, never is."""
    x = values(case, seeded)
    return lambda: double(x)


@kernel_spec(
    kernel=_double,
    candidates=grid(SHIFT=[23, 22, 20]),
    cases=[Case(n=100, dtype="float32")],
    grid_independent=FREE,
    tolerance=Tolerance(ulp=4),
)
def tight(case, seeded):
    """Too tight for the last candidate."""
    x = values(case, seeded)
    return lambda: double(x)


@kernel_spec(
    kernel=_double,
    candidates=[Config(SHIFT=2), Config(FAULT="zeros")],
    cases=[Case(n=100, dtype="float32")],
    grid_independent=FREE,
    tolerance=Tolerance(rtol=0.9),
)
def wide(case, seeded):
    """Takes nearly anything for the right value, and still not zeros."""
    x = values(case, seeded)
    return lambda: double(x)


@kernel_spec(
    kernel=_double,
    candidates=[Config(FAULT="none"), Config(FAULT="off_by_one")],
    cases=[Case(n=100, dtype="int32")],
    grid_independent=FREE,
    tolerance=Tolerance(atol=10, rtol=0.5, ulp=100),
)
def integers(case, seeded):
    """Whole numbers are equal or wrong."""
    x = seeded.randint(-1000, 1000, (case.n,), dtype=case.dtype, name="x")
    return lambda: double(x)


@kernel_spec(
    candidates=grid(FAULT=["none", "rounded", "dtype", "shape", "strides", "one_more", "nan_payload", "restless"]),
    cases=[Case(n=40)],
    tolerance=Tolerance(rtol=1e-3, atol=1.0, ulp=1000),
    repeats=4,
)
def forms(case, seeded):
    """Another form of the output, another NaN, and answers that differ from each other."""
    x = seeded.uniform((case.n,), low=1.0, high=2.0, name="x")
    with torch.no_grad():
        x[5] = float("nan")

    def launch(config):
        y = x + x
        fault = config["FAULT"] if config is not None else "none"
        if fault == "rounded":
            y = y * 1.0001
        elif fault == "nan_payload":
            y.view(torch.int32)[5] ^= 1
        elif fault == "restless":
            y = y * (1 + 1e-6 * random.SystemRandom().randrange(1 << 20) / (1 << 20))
        changed = {
            "dtype": lambda: y.to(torch.float64),
            "shape": lambda: y.view(8, 5),
            "strides": lambda: torch.stack([y, y], dim=1)[:, 0],
            "one_more": lambda: (y, y),
        }
        return changed.get(fault, lambda: y)()

    return launch
