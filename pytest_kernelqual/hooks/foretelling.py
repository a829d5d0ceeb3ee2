"""What `--kernelqual-update --collect-only` tells: which rows a refresh would measure, and which it would not."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.hooks.committed_files import is_committed_file
from pytest_kernelqual.hooks.committed_row import KeyTarget, why_untimed
from pytest_kernelqual.hooks.planning import kernel_nodeid
from pytest_kernelqual.hooks.run import TARGET, Run
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.report.phrases import clean, counted

_LONGEST = 300


def foretold(items: Sequence[pytest.Item], run: Run) -> str:
    """Return what an update of the selected items would do: each row by itself, all else by its number."""
    here = run.committed_device()
    rows = [(item, row) for item in items for row in [_row(item)] if row is not None]
    cases = _cases(items)
    measured = [f"{item.nodeid}: {_fate(item, row, cases, run)}" for item, row in rows if row.device == here]
    left = [f"{item.nodeid}: {why_untimed(run, row.device, here)}" for item, row in rows if row.device != here]
    budget_s = run.settings.budget_s
    within = f", as far as --kernelqual-budget={budget_s:g}s goes" if budget_s is not None else ""
    lines = [f"--kernelqual-update would measure {counted(len(measured), 'row')}{within}", *_indented(measured)]
    if left:
        lines += [f"and would not measure {counted(len(left), 'row')}, only check", *_indented(left)]
    files = sum(map(is_committed_file, items))
    beside = f"beside {counted(len(cases), 'case')} to qualify and {counted(files, 'file')} to check"
    return "\n".join([*lines, beside])


def _fate(item: pytest.Item, row: KeyTarget, cases: set[tuple[str, str]], run: Run) -> str:
    """Say what would become of a row that is measured."""
    unselected = [id_ for id_ in row.case_ids if (kernel_nodeid(item), id_) not in cases]
    if unselected:
        return f"not written, since its case {unselected[0]} is not selected"
    file = run.store.read(row.declared.spec.name, row.device)
    if isinstance(file, Refusal):
        return f"not written: {file}"
    path = run.store.path_for(row.declared.spec.name, row.device)
    place = Path(os.path.relpath(path, item.config.rootpath)).as_posix()
    old = file.row(row.key) if file is not None else None
    if old is None:
        return f"new in {place}"
    return f"against {Config(old.config).id if old.config is not None else 'the fixed launch'} in {place}"


def _row(item: pytest.Item) -> KeyTarget | None:
    callspec = getattr(item, "callspec", None)
    given = callspec.params.get("kernelqual_key") if callspec is not None else None
    return given if isinstance(given, KeyTarget) else None


def _cases(items: Sequence[pytest.Item]) -> set[tuple[str, str]]:
    """Return the selected cases, each by its kernel's node id and its own id."""
    targets = ((item, item.stash.get(TARGET, None)) for item in items)
    return {
        (kernel_nodeid(item), target.case.id)
        for item, target in targets
        if target is not None and target.case is not None and target.row is None
    }


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {clean(line, _LONGEST)}" for line in lines]
