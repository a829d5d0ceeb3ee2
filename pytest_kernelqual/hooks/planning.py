"""The plan of a run in declared order, and what narrows it."""

from collections.abc import Collection, Sequence

import pytest

from pytest_kernelqual.hooks.run import TARGET, Target
from pytest_kernelqual.model.record import DeclaredItem
from pytest_kernelqual.report.plan import Plan, PlannedCase, PlannedKernel, PlannedRow

# Why a hand-written test cannot have its case.
PROBLEM = pytest.StashKey[str]()


def make_plan(items: Collection[pytest.Item], declared: Sequence[pytest.Item], narrowed: dict[str, str]) -> Plan:
    """Return the plan of the selected items; `declared` are those before selection.

    Other plugins may shuffle items, so that order is made anew: by file, then as declared.
    """
    kernels: dict[str, PlannedKernel] = {}
    for item in sorted(items, key=_declared_order):
        target, problem = item.stash.get(TARGET, None), item.stash.get(PROBLEM, "")
        if target is None and not problem:
            continue  # a marked test that asks for no fixture of ours qualifies nothing
        nodeid = kernel_nodeid(item)
        spec = target.declared.spec if target is not None else None
        kernel = kernels.setdefault(
            nodeid,
            PlannedKernel(
                kernel=spec.name if spec is not None else nodeid.rpartition("::")[2],
                nodeid=nodeid,
                line=_line(item),
                screen=spec.screen if spec is not None else None,
                notes=spec.notes if spec is not None else [],
                problem=spec.problem if spec is not None else problem,
            ),
        )
        if target is not None and target.row is not None:
            kernel.rows.append(PlannedRow(nodeid=item.nodeid, device=target.row.device, key=target.row.key))
        elif target is not None and target.case is not None:
            kernel.cases.append(_planned_case(item, target))
    selected = {item.nodeid for item in items}
    return Plan(
        kernels=list(kernels.values()),
        nodeids=[item.nodeid for item in declared],
        incomplete_because=list(narrowed.values()),
        items=[_declared_item(item, selected) for item in sorted(declared, key=_declared_order)],
        narrowed=narrowed,
    )


def _declared_item(item: pytest.Item, selected: Collection[str]) -> DeclaredItem:
    _, position, kernel, place, nodeid = _declared_order(item)
    return DeclaredItem(nodeid=nodeid, kernel=kernel, place=(position, place), selected=nodeid in selected)


def _line(item: pytest.Item) -> int:
    """Return where the spec or test stands in the file that its node id names; 0 where that is another file."""
    path, line, _ = item.location
    return line + 1 if line is not None and path == item.nodeid.partition("::")[0] else 0


def kernel_nodeid(item: pytest.Item) -> str:
    """Return the node id of the spec (for a hand-written test: of the function) without the case."""
    parent = item.getparent(pytest.Class)
    if parent is not None and getattr(parent.obj, "kernelqual_declared", None) is not None:
        return parent.nodeid
    function = getattr(item, "originalname", None)
    return f"{item.parent.nodeid}::{function}" if function and item.parent is not None else item.nodeid


def narrowed_by(config: pytest.Config, *, default_paths: bool, selected: int, declared: int) -> dict[str, str]:
    """Say what made this run smaller than everything that is declared."""
    reasons = {}
    if not default_paths:
        paths = " ".join(str(argument) for argument in config.args)
        reasons["paths"] = f"paths were given: {paths}"
    if selected < declared:
        reasons["deselected"] = f"{declared - selected} of {declared} items were deselected"
    if config.getoption("lf", default=False) and config.cache is not None and config.cache.get("cache/lastfailed", {}):
        reasons["lf"] = "--lf ran only what failed last"
    if config.getoption("ignore", None) or config.getoption("ignore_glob", None):
        reasons["ignore"] = "--ignore left paths out"
    return reasons


def _planned_case(item: pytest.Item, target: Target) -> PlannedCase:
    case = target.case
    if case is None:
        raise AssertionError("only cases are planned")
    own = getattr(getattr(item, "cls", None), "kernelqual_declared", None) is not None
    candidates = [(info.id, info.config) for info in target.declared.spec.candidates] if own else []
    return PlannedCase(
        id=case.id, case=case.axes, key=case.key, ran_as=case.ran_as, nodeid=item.nodeid, candidates=candidates
    )


def _declared_order(item: pytest.Item) -> tuple[str, int, str, int, str]:
    target = item.stash.get(TARGET, None)
    path = item.nodeid.partition("::")[0]
    if target is None:
        return path, 0, kernel_nodeid(item), 0, item.nodeid
    cases = [case.id for case in target.declared.spec.cases]
    position = cases.index(target.case.id) if target.case is not None else 0
    if target.row is not None:
        position += len(cases)
    return path, target.declared.position, kernel_nodeid(item), position, item.nodeid
