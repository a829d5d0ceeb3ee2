"""How candidates compare with the fixed launch on a compile target: the same program, the same arithmetic order."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from pytest_kernelqual.launch import DryRun
from pytest_kernelqual.launch.program import Lasting
from pytest_kernelqual.launch.trace import CallTrace
from pytest_kernelqual.model.outcome import Evidence
from pytest_kernelqual.on_device.code_facts import CodeFacts


class Sketch(NamedTuple):
    """What a dry launch amounts to besides code; nothing in it holds a tensor."""

    launches: list[tuple[str, str, tuple[int, ...], list[tuple[str, str, str]]]]
    """Of each: key of the code, name of the kernel, programs along three axes, and numbers by name."""
    calls: str
    """Digest of all else: torch's operators, pointers, hooks."""


def sketched(run: DryRun, trace: CallTrace, lasting: Lasting) -> Sketch | None:
    """Return what is compared of a dry launch; None where something in it cannot be."""
    told = run.launches
    if run.strays or trace.unknown or any(launch.arguments.unknown or launch.grid is None for launch in told):
        return None
    given = [
        (launch.jit.fn.__name__, launch.arguments.pointers, [lasting.hook(hook) for hook in launch.hooks])
        for launch in told
    ]
    launches = [
        (
            launch.specialisation.key,
            launch.jit.fn.__name__,
            (*(launch.grid or ()), 1, 1, 1)[:3],
            sorted((name, type(value).__name__, repr(value)) for name, value in launch.arguments.scalars.items()),
        )
        for launch in told
    ]
    return Sketch(launches, _digest((given, trace.events)))


def program(sketch: Sketch | None, facts: Mapping[str, CodeFacts]) -> str:
    """Return the digest of a launch's program; empty where it is not known."""
    if sketch is None or not all(key in facts and facts[key].code for key, *_ in sketch.launches):
        return ""
    return _digest(([(facts[key].code, *rest) for key, _, *rest in sketch.launches], sketch.calls))


def order(sketch: Sketch | None, facts: Mapping[str, CodeFacts]) -> str:
    """Return the digest of a launch's arithmetic order; empty where it is not known."""
    if sketch is None:
        return ""
    told = []
    for key, name, programs, scalars in sketch.launches:
        known = facts[key].order if key in facts else None
        if known is None or not known.digest:
            return ""
        told.append((name, known, scalars, [programs[axis] for axis in known.grid_axes]))
    return _digest((told, sketch.calls))


def evidence(fixed: Sketch | None, candidate: Sketch | None, facts: Mapping[str, CodeFacts]) -> Evidence | None:
    """Return what compiling proves of a candidate; None where that is nothing."""
    if program(fixed, facts) and program(fixed, facts) == program(candidate, facts):
        return "identical_binary"
    if order(fixed, facts) and order(fixed, facts) == order(candidate, facts):
        return "identical_order"
    return None


def _digest(value: Any) -> str:
    return sha256(repr(value).encode()).hexdigest()
