"""Specs with an oracle; the expected outcomes stand in test_references.py."""

import os
import weakref
from pathlib import Path

import torch
from doubles import BLOCK, _double, double

from pytest_kernelqual import Case, Config, Tolerance, grid, kernel_spec

FREE = ("SHIFT", "FAULT")
CASES = [Case(n=100, dtype="float32")]
CLOSE = Tolerance(rtol=1e-6)


def exact(case, inputs):
    """Return the reference: in float64, and from the pristine input."""
    assert len(inputs.x) == case.n
    return inputs["x"].double() * 2


@kernel_spec(
    kernel=_double, candidates=grid(SHIFT=[0, 23]), cases=CASES, grid_independent=FREE, oracle=exact,
    oracle_tolerance=CLOSE, tolerance=CLOSE, seeds=2,
)  # fmt: skip
def good_fixed(case, seeded):
    """The fixed launch is right, and candidates are held against it."""
    x = seeded.normal((case.n,), name="x")
    return lambda: double(x)


@kernel_spec(
    kernel=_double, candidates=[Config(SHIFT=0), Config(SHIFT=23), Config(SHIFT=7), Config(FAULT="unwritten")],
    cases=CASES, grid_independent=FREE, oracle=exact, oracle_tolerance=CLOSE,
)  # fmt: skip
def wrong_fixed(case, seeded):
    """All candidates but two are right, one of which is as wrong as the fixed launch."""
    x = seeded.normal((case.n,), name="x")
    return lambda: double(x, shift=7)


@kernel_spec(
    kernel=_double, candidates=grid(SHIFT=[0, 10]), cases=CASES, grid_independent=FREE, oracle=exact,
    oracle_tolerance=CLOSE,
)  # fmt: skip
def both_wrong(case, seeded):
    """One candidate is right, and another wrong in a way of its own."""
    x = seeded.normal((case.n,), name="x")
    return lambda: double(x, shift=7)


@kernel_spec(
    kernel=_double, candidates=grid(SHIFT=[0, 23]), cases=CASES, grid_independent=FREE, tolerance=CLOSE,
    oracle=lambda case, inputs: inputs.x.double() * 3, oracle_tolerance=CLOSE,
)  # fmt: skip
def wrong_oracle(case, seeded):
    """Nobody agrees with the oracle; one candidate has the bytes of the fixed launch."""
    x = seeded.normal((case.n,), name="x")
    return lambda: double(x)


@kernel_spec(
    kernel=_double, candidates=grid(SHIFT=[0]), cases=CASES, grid_independent=FREE,
    oracle=lambda case, inputs: inputs.x.double() * 3, oracle_tolerance=CLOSE,
)  # fmt: skip
def lonely_oracle(case, seeded):
    """All candidates have the bytes of the fixed launch, which the oracle rejects."""
    x = seeded.normal((case.n,), name="x")
    return lambda: double(x)


@kernel_spec(
    kernel=_double, candidates=[Config(BLOCK=BLOCK, SHIFT=0), Config(FAULT="none", SHIFT=0)], cases=CASES,
    grid_independent=FREE,
)  # fmt: skip
def no_oracle(case, seeded):
    """The candidates agree with each other, and nobody can tell who is right."""
    x = seeded.normal((case.n,), name="x")
    return lambda: double(x, shift=7)


@kernel_spec(
    kernel=_double, candidates=grid(SHIFT=[0]), cases=[Case(n=10, dtype="float16"), Case(n=10, dtype="int32")],
    grid_independent=FREE, oracle=lambda case, inputs: inputs.x * 2,
)  # fmt: skip
def rounded(case, seeded):
    """Without a tolerance the output is the reference, rounded; whole numbers are equal."""
    x = seeded.full((case.n,), 3, dtype=case.dtype, name="x")
    return lambda: double(x)


@kernel_spec(
    kernel=_double, candidates=grid(SHIFT=[0]), cases=[Case(n=10)], grid_independent=FREE,
    oracle=lambda case, inputs: inputs.x * 2 + (torch.arange(case.n, device=inputs.x.device) == 4),
)  # fmt: skip
def integer_off_by_one(case, seeded):
    """An integer is equal or wrong."""
    x = seeded.arange(case.n, dtype="int32", name="x")
    return lambda: double(x)


REMEMBERED = []


def spoiling(_case, inputs):
    """Change the inputs, which are copies, and of which nothing is kept."""
    assert all(tensor() is None for tensor in REMEMBERED)
    reference = inputs.x.mul_(2).double()
    REMEMBERED.extend([weakref.ref(inputs.x), weakref.ref(reference)])
    return reference


@kernel_spec(
    kernel=_double, candidates=grid(SHIFT=[0]), cases=CASES, grid_independent=FREE, oracle=spoiling,
    oracle_tolerance=CLOSE, seeds=2,
)  # fmt: skip
def spoiled_inputs(case, seeded):
    """What the oracle does to its inputs reaches no launch."""
    x = seeded.normal((case.n,), name="x")
    return lambda: double(x)


class BrokenError(Exception):
    """What an oracle raises."""


def raising(_case, _inputs):
    """Raise."""
    raise BrokenError("the library is not\ninstalled")


ANSWERS = {
    "shape": lambda inputs: inputs.x[:3].double(),
    "dtype": lambda inputs: (inputs.x * 2).to(torch.int64),
    "text": lambda inputs: "2",
    "two": lambda inputs: (inputs.x, inputs.x),
    "nothing": lambda inputs: None,
    "not_judged": lambda inputs: (None,),
    "misspelled": lambda inputs: inputs.weight,
    "misspelled_item": lambda inputs: inputs["X"],
    "raises": lambda inputs: raising(None, inputs),
}


@kernel_spec(
    kernel=_double, candidates=grid(SHIFT=[0]), cases=[Case(answer=name) for name in ANSWERS], grid_independent=FREE,
    oracle=lambda case, inputs: ANSWERS[case.answer](inputs),
)  # fmt: skip
def wrong_answers(case, seeded):
    """An oracle that cannot be understood fails the case in one line."""
    del case
    x = seeded.normal((10,), name="x")
    return lambda: double(x)


def gradients(_case, inputs):
    """Judge by names, and leave one output out."""
    x = inputs.x.double().requires_grad_()
    (x * inputs.w * inputs.w).sum().backward()
    return {"input x.grad": x.grad, "return[1]": 2.0}


@kernel_spec(
    candidates=grid(FAULT=["none", "gradient"]), cases=[Case(n=8)], oracle=gradients, oracle_tolerance=CLOSE,
)  # fmt: skip
def by_name(case, seeded):
    """Gradients and numbers, some of which the oracle judges."""
    x = seeded.normal((case.n,), requires_grad=True, name="x")
    w = seeded.normal((case.n,), name="w")

    def launch(config):
        y = x * w * w
        (y.sum() * (1.0 if config is None or config["FAULT"] == "none" else 2.0)).backward()
        return y.detach(), 2.0

    return launch


@kernel_spec(
    candidates=grid(A=[1]), cases=[Case(value=name) for name in ("nan", "infinity", "minus_zero", "large")],
    oracle=lambda case, inputs: inputs.x.double() * 2,
)  # fmt: skip
def special(case, seeded):
    """What is not finite agrees with its like, zeros of both signs are equal, and too large is infinite."""
    value = {"nan": float("nan"), "infinity": float("inf"), "minus_zero": -0.0, "large": 3e38}[case.value]
    x = seeded.full((5,), value, name="x")
    return lambda config: 0.0 - (0.0 - x - x)


def counting(_case, inputs):
    """Leave a trace of being asked."""
    with Path("asked.txt").open("a") as file:
        file.write(f"{inputs.x.sum().item()}\n")
    return inputs.x.double() * 2


@kernel_spec(
    candidates=grid(A=[1, 2, 3]),
    cases=[Case(n=8)],
    oracle=counting,
    seeds=2,
)
def asked_once(case, seeded):
    """A process that dies has the fixed launch run again, and not the oracle asked again."""
    x = seeded.normal((case.n,), name="x")

    def launch(config):
        if config is not None and config["A"] == 2:
            os.abort()
        return x + x

    return launch


@kernel_spec(
    candidates=grid(FAULT=["abort", "none"]),
    cases=[Case(n=8)],
    oracle=lambda case, inputs: inputs.x.double() * 2,
)
def wrong_and_dying(case, seeded):
    """A candidate that dies keeps its outcome where the fixed launch is wrong, and the next one is heard."""
    x = seeded.normal((case.n,), name="x")

    def launch(config):
        if config is not None and config["FAULT"] == "abort":
            os.abort()
        return x + x if config is not None else x

    return launch
