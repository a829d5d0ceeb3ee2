"""Items about files of committed configs: can each be read, and does something reach each of its rows?"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pytest_kernelqual.committed.membership import Declared, row_refusals
from pytest_kernelqual.committed.places import row_lines
from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedFile, key_text
from pytest_kernelqual.committed.store import Contents
from pytest_kernelqual.gating.row import refused, verdict
from pytest_kernelqual.hooks.rows_elsewhere import Checked
from pytest_kernelqual.hooks.run import Run
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import SpecInfo
from pytest_kernelqual.model.record import CommittedRecord, KernelRecord
from pytest_kernelqual.model.target_record import CompiledRows
from pytest_kernelqual.report.rows import committed_text

# The report tells of every row.
_MOST_TOLD = 20


class CommittedFileCollector(pytest.File):
    """One file of committed configs."""

    judge: Callable[[Path], list[CommittedRecord]]
    compiled: Callable[[Path, str], Checked]

    def collect(self) -> Iterator[pytest.Item]:
        """Yield its only item."""
        item: CommittedFileItem = CommittedFileItem.from_parent(self, name="file")
        item.judge, item.compiled = self.judge, self.compiled
        yield item


class CommittedFileItem(pytest.Item):
    """Check that a committed file can be read, that something reaches each of its rows, and that it fits its device."""

    judge: Callable[[Path], list[CommittedRecord]]
    compiled: Callable[[Path, str], Checked]
    record: KernelRecord
    rows: CompiledRows | None = None

    def runtest(self) -> None:
        """Fail with every reason."""
        checked = self.compiled(self.path, self.nodeid)
        self.rows = checked.compiled
        file = self.nodeid.partition("::")[0]
        lines_of = row_lines(self.path)
        found = [
            structs.replace(one, nodeid=self.nodeid, file=file, line=lines_of.get(key_text(one.key), 0))
            for one in [*self.judge(self.path), *checked.failed]
        ]
        self.record = KernelRecord(kernel=self.path.parent.name, nodeid=self.nodeid, committed=found)
        if any(not one.passed for one in found):
            lines = [committed_text(one) for one in found[:_MOST_TOLD]]
            more = [f"and {len(found) - len(lines)} more"] if len(found) > len(lines) else []
            pytest.fail("\n".join([*lines, *more]), pytrace=False)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the reasons alone."""
        if isinstance(excinfo.value, pytest.fail.Exception):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Place the item on the file's first line."""
        return self.path, 0, self.path.name


def is_committed_file(item: pytest.Item) -> bool:
    """Tell whether an item is about a committed file."""
    return isinstance(item, CommittedFileItem)


def judge_file(path: Path, contents: Contents, specs: Mapping[str, SpecInfo], run: Run) -> list[CommittedRecord]:
    """Return what is wrong with a committed file as a whole, and with rows that nothing reaches."""
    blank = CommittedRecord(device=path.stem, key={})
    refusals = [refusal for refusal in contents.refusals if Path(refusal.path) == path]
    if refusals:
        return [refused(blank, refusal) for refusal in refusals]
    file = contents.files.get(path)
    if file is None:
        return [verdict(blank, "bad_file", f"{path}: is not where a kernel and device would be looked for")]
    spec = specs.get(file.kernel)
    if spec is None:
        if not run.default_paths or run.unreadable_specs:
            return []  # specs that were not collected may reach it
        told = f"{path}: no spec is called {file.kernel!r}; remove the file, or name the spec so"
        return [verdict(blank, "orphan", told)]
    if spec.problem:
        return []  # its own item tells it
    today = Declared(
        space=spec.space,
        candidates=[Config(info.config) for info in spec.candidates],
        keys=[case.key for case in spec.cases if not case.derived],
    )
    dropped = _dropped_at_the_end(file, run)
    found = [refusal for refusal in row_refusals(file, str(path), today) if refusal.code in _OF_ROWS]
    return [_row(blank, refusal, dropped=dropped) for refusal in found]


# What the file's item tells of rows; all else is told by the items of the rows.
_OF_ROWS = ("unknown_key", "wrong_type")


def _row(blank: CommittedRecord, refusal: Refusal, *, dropped: bool) -> CommittedRecord:
    record = structs.replace(blank, key=refusal.key or {})
    if refusal.code != "unknown_key":
        return verdict(record, "bad_file", str(refusal))
    if not dropped:
        return verdict(record, "orphan", str(refusal))
    return structs.replace(verdict(record, "orphan", f"{refusal}; --kernelqual-update drops it"), passed=True)


def _dropped_at_the_end(file: CommittedFile, run: Run) -> bool:
    """Tell whether this run sets out to drop the orphans of a file: an update that nothing narrowed, on its device."""
    whole = run.plan is not None and not run.plan.incomplete_because
    return run.settings.update and whole and file.device == run.committed_device()
