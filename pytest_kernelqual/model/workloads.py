"""What is wrong with the cases of a declaration."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.values import is_sequence, names, shown


def cases_problem(options: dict[str, Any]) -> str | None:
    """Say what is wrong with the cases of a declaration and with the options that name their axes, or None."""
    cases = options.get("cases", ())
    if not is_sequence(cases):
        return f"cases={shown(cases)} must be a list of Case objects"
    if len(cases) == 0:
        return "cases is empty; declare at least one Case"
    stranger = next((case for case in cases if not isinstance(case, Case)), None)
    if stranger is not None:
        return f"cases holds {shown(stranger)}; it must be a list of Case objects"
    problem: str | None = next((told for case in cases if (told := case.problem())), None)
    return (
        problem
        or _ids_problem(cases)
        or _key_problem(names(options.get("key", ())), cases)
        or _batch_problem(options, cases)
    )


def _ids_problem(cases: Sequence[Case]) -> str | None:
    """Say which two cases have one id, or None."""
    seen: dict[str, Case] = {}
    for case in cases:
        first = seen.setdefault(case.id, case)
        if first is case:
            continue
        if repr(first) == repr(case):
            return f"two cases have the id {case.id!r}: {shown(case)} occurs twice; remove one"
        return (
            f"two cases have the id {case.id!r}: {shown(first)} and {shown(case)}; "
            "ids keep ASCII letters, digits, '_', '.' and '+' only, so let an axis differ in these"
        )
    return None


def _key_problem(key: Sequence[str], cases: Sequence[Case]) -> str | None:
    """Say which name of the key is no axis of a case, or occurs twice; or None."""
    for name in key:
        lacking = next((case for case in cases if name not in case.axes), None)
        if lacking is not None:
            near = get_close_matches(name, lacking.axes, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"axes: {', '.join(lacking.axes) or 'none'}"
            return f"key {name!r} is not an axis of case {lacking.id!r}; {hint}"
        if key.count(name) > 1:
            return f"key names {name!r} twice; remove one"
    return None


def _batch_problem(options: dict[str, Any], cases: Sequence[Case]) -> str | None:
    """Say why the batch cannot be told from the cases, or None."""
    axis, required = options.get("batch_axis"), options.get("batch_invariant", False)
    if not isinstance(required, bool):
        return f"batch_invariant={shown(required)} must be True or False"
    if axis is None:
        return "batch_invariant=True needs batch_axis=, the case axis that counts rows" if required else None
    for case in cases:
        for told in (case, case.under_interpreter()):
            rows = told.axes.get(axis) if isinstance(axis, str) else None
            if type(rows) is not int or rows < 1:
                return f"batch_axis={shown(axis)} must be a case axis that is a whole number of rows; case: {told!r}"
    return None
