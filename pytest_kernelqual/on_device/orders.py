"""The arithmetic order of a candidate's program against the fixed launch's."""

from hashlib import sha256
from typing import NamedTuple

from pytest_kernelqual.judge.order import Order, OrderedLaunch, compare_orders
from pytest_kernelqual.launch import Program
from pytest_kernelqual.on_device.order import order_of


class Ordered(NamedTuple):
    """What a comparison of orders gave."""

    order: Order
    candidate: str = ""
    """Digest of the candidate's order; empty where it is unknown."""
    fixed: str = ""
    """Digest of the fixed launch's."""


def ordered(fixed: Program | None, candidate: Program | None) -> Ordered:
    """Compare the arithmetic order of a candidate with that of the fixed launch; None is what could not be told."""
    if fixed is None or candidate is None:
        return Ordered(Order("unknown", ("what is launched cannot be told without running it",)))
    sides = _launches(fixed), _launches(candidate)
    order = compare_orders(*sides)
    if order.verdict == "equal" and fixed.calls != candidate.calls:
        order = Order("differs", ("torch is asked for other operators, or kernels are given other buffers",))
    return Ordered(order, _digest(sides[1]), _digest(sides[0]))


def _launches(program: Program) -> list[OrderedLaunch]:
    return [
        OrderedLaunch(
            kernel=launch.jit.fn.__name__,
            fingerprint=order_of(launch.compiled),
            grid=launch.grid,
            scalars=tuple(sorted((name, repr(value)) for name, value in launch.arguments.scalars.items())),
        )
        for launch in program.all_launches
    ]


def _digest(launches: list[OrderedLaunch]) -> str:
    if not launches or any(launch.fingerprint.slices is None for launch in launches):
        return ""
    told = [
        (launch.kernel, launch.fingerprint.digest, launch.scalars, launch.programs(launch.fingerprint.grid_axes))
        for launch in launches
    ]
    return sha256(repr(told).encode()).hexdigest()[:16]
