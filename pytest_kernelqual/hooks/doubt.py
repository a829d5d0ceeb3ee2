"""The order in which a budget of timing is spent: the most doubtful rows first."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedDevice, CommittedFile, Toolchain
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.hooks.committed_row import KeyTarget
from pytest_kernelqual.hooks.refreshing import toolchain_of
from pytest_kernelqual.hooks.run import Run
from pytest_kernelqual.report.document import read


def most_doubtful_first(items: Sequence[pytest.Item], run: Run) -> list[pytest.Item]:
    """Return items with those of rows behind all others, in order of doubt; equal doubts stay as they were.

    Behind all others, since a row that is timed needs what its cases found.
    """
    environment = run.environment()
    if environment is None:
        return list(items)  # nothing will be timed
    today = toolchain_of(environment)
    read_file = cache(run.store.read)
    run.timed_before = _last_timed(run, today)
    targets = [(item, item.callspec.params.get("kernelqual_key")) for item in items if hasattr(item, "callspec")]
    doubts = {
        item: _doubt(target, read_file, today, timed_at=run.timed_before.get(item.nodeid, ""))
        for item, target in targets
        if isinstance(target, KeyTarget)
    }
    return [*(item for item in items if item not in doubts), *sorted(doubts, key=lambda item: doubts[item])]


def _doubt(
    target: KeyTarget,
    read_file: Callable[[str, CommittedDevice], CommittedFile | Refusal | None],
    today: Toolchain,
    *,
    timed_at: str,
) -> tuple[Any, ...]:
    """Return what rows are sorted by; the smallest is the most doubtful."""
    file = read_file(target.declared.spec.name, target.device)
    row = file.row(target.key) if isinstance(file, CommittedFile) else None
    if row is None or not isinstance(file, CommittedFile) or file.space_of(row) != target.declared.spec.space:
        return (0,)
    return 1, timed_at, file.toolchain_of(row) == today, row.speed_up or 1.0, row.measured_at


def _last_timed(run: Run, today: Toolchain) -> dict[str, str]:
    """Return when each row was last timed, where the last report is of the versions of today."""
    try:
        last = read(run.report)
    except DocumentError:
        return {}
    if last.environment is None or toolchain_of(last.environment) != today:
        return {}
    return {row.nodeid: row.timed_at for kernel in last.kernels for row in kernel.committed if row.timed_at}
