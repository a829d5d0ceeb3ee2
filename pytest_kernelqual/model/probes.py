"""Probes that a spec opts into: other memory for the same values, and cases of other sizes."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.profiles import CASE_PROBES, LAYOUT_PROBES
from pytest_kernelqual.model.values import shown

AXIS = "probe"
"""The axis that tells a derived case from a declared one."""

_MORE = 16
_MORE_INTERPRETED = 3

_TILE = re.compile("block|tile", re.IGNORECASE)
_LARGEST_TILE = 1 << 20
"""Triton takes no larger one."""


def targets(probes: Any) -> dict[str, tuple[str, ...] | None]:
    """Return what each declared probe is about: names of axes or inputs, or None for all inputs."""
    if not isinstance(probes, Mapping):
        return dict.fromkeys(probes)
    return {name: None if on is True else (on,) if isinstance(on, str) else tuple(on) for name, on in probes.items()}


def probes_problem(probes: Any, cases: Sequence[Case]) -> str | None:
    """Say what is wrong with `probes=`, or None."""
    if isinstance(probes, str) or not isinstance(probes, Mapping | Sequence):
        return f"probes={shown(probes)} must be a tuple of names, or a dict of names and what they are about"
    known = (*LAYOUT_PROBES, *CASE_PROBES)
    for name in probes:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            return f"no probe is called {name!r}; " + (
                f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)}"
            )
    told = dict(probes) if isinstance(probes, Mapping) else dict.fromkeys(probes, True)
    for name, on in told.items():
        named = [on] if isinstance(on, str) else on
        if not (on is True or (isinstance(named, list | tuple) and all(isinstance(item, str) for item in named))):
            return f"probe {name!r} is about {shown(on)}; give names, or True"
        if name in CASE_PROBES:
            problem = _axis_problem(name, on, cases)
            if problem:
                return problem
    return None


def inputs_problem(probes: Mapping[str, tuple[str, ...] | None], inputs: Collection[str]) -> str | None:
    """Say which input that a probe is about the builder did not make, or None."""
    for name in LAYOUT_PROBES:
        for on in probes.get(name) or ():
            if on not in inputs:
                near = get_close_matches(on, inputs, 1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                made = ", ".join(inputs) or "none"
                return f"probe {name!r} is about {on!r}, which is no input of the case; {hint}inputs: {made}"
    return None


def derived_cases(
    cases: Sequence[Case], probes: Mapping[str, tuple[str, ...] | None], candidates: Sequence[Config]
) -> list[Case]:
    """Return the cases that the probes make of declared ones, large enough for the tiles of the candidates."""
    derive: dict[str, Callable[[Case, str], Case | None]] = {
        "more_rows": _more_rows,
        "last_tile_of_one": partial(_last_tile_of_one, tile=_largest_tile(candidates)),
    }
    made = [derive[name](case, axis) for name in CASE_PROBES for axis in probes.get(name) or () for case in cases]
    return list({case.id: case for case in made if case is not None}.values())


def _more_rows(case: Case, axis: str) -> Case:
    small = case.interpreter.get(axis, case.axes[axis])
    return _derived(case, "more_rows", axis, case.axes[axis] * _MORE, small * _MORE_INTERPRETED)


def _largest_tile(candidates: Sequence[Config]) -> int:
    """Return the largest power of two among parameters that are named as tiles are; 1 where there is none."""
    values = [value for config in candidates for name, value in config.items() if _TILE.search(name)]
    sizes = [value for value in values if type(value) is int and 0 < value <= _LARGEST_TILE]
    return max((size for size in sizes if size.bit_count() == 1), default=1)


def _last_tile_of_one(case: Case, axis: str, *, tile: int) -> Case | None:
    """Return the case in which every tile up to `tile`, or up to the axis, leaves one element for the last one."""
    small = case.interpreter.get(axis, case.axes[axis])
    size, small = (1 + max(1 << value.bit_length() - 1, tile) for value in (case.axes[axis], small))
    return _derived(case, "last_tile_of_one", axis, size, small) if size != case.axes[axis] else None


def _derived(case: Case, probe: str, axis: str, size: int, small: int) -> Case:
    axes = {**case.axes, axis: size, AXIS: probe}
    smaller = {**case.interpreter, axis: small}
    return Case(interpreter=smaller if small != size or case.interpreter else None, **axes)


def _axis_problem(name: str, on: Any, cases: Sequence[Case]) -> str | None:
    if on is True:
        return f"probe {name!r} must name an axis of the cases, as in probes={{{name!r}: 'rows'}}"
    for axis in [on] if isinstance(on, str) else on:
        for case in cases:
            sizes = [case.axes.get(axis), case.interpreter.get(axis, 1)]
            if any(type(size) is not int or size < 1 for size in sizes):
                return f"probe {name!r} is about {axis!r}, which case {case.id!r} does not have as a size from 1 on"
    taken = next((case for case in cases if AXIS in case.axes), None)
    return f"case {taken.id!r} has the axis {AXIS!r}, by which derived cases are told; rename it" if taken else None
