"""Committed rows on devices that this run does not have: compiled, and held against their limits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pytest_kernelqual.committed.membership import Declared as DeclaredToday
from pytest_kernelqual.committed.membership import row_refusals
from pytest_kernelqual.committed.schema import CommittedFile, Row, key_text
from pytest_kernelqual.committed.store import Contents
from pytest_kernelqual.errors import DocumentError, SettingsError
from pytest_kernelqual.gating.row import verdict
from pytest_kernelqual.hooks.run import Declared, Run
from pytest_kernelqual.judge.targets import FIXED, newly_fitting, row_failures, target_of
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo
from pytest_kernelqual.model.outcome import TargetOutcome
from pytest_kernelqual.model.record import CommittedRecord
from pytest_kernelqual.model.target_record import CompiledCase, CompiledRows, TargetLaunch, TargetRecord
from pytest_kernelqual.model.targets import find_target
from pytest_kernelqual.processes.compile_ahead import CompileAhead, Wanted
from pytest_kernelqual.processes.compile_targets import unknown
from pytest_kernelqual.report.document import read


class Checked(NamedTuple):
    """What was found of the rows of a file."""

    compiled: CompiledRows | None = None
    failed: Sequence[CommittedRecord] = ()
    """Rows that do not compile for their own device, or do not fit it."""


class RowsElsewhere:
    """Ask about the rows of committed files, and judge what comes back."""

    def __init__(self, run: Run, contents: Contents, declared: Mapping[str, Declared]) -> None:
        """Keep what is committed and what is declared, by kernel."""
        self._run = run
        self._contents = contents
        self._declared = declared

    def begin(self, files: Iterable[CommittedFile]) -> None:
        """Have all of it compiled beside the run: what a file needs on its own device first."""
        wanted = [
            (one.target == target_of(file.device), one)
            for file in files
            for one in self._wanted(file)
            if not _problem(one.target)
        ]
        self._ahead.begin([one for _, one in sorted(wanted, key=lambda pair: not pair[0])])

    def check(self, file: CommittedFile, nodeid: str, stem: str) -> Checked:
        """Return what the rows of a file would meet."""
        own = target_of(file.device)
        with self._run.lock.shared():
            found = {one.target: None if _problem(one.target) else self._ahead.found(one) for one in self._wanted(file)}
        if not found:
            return Checked()
        cases, failed = [], []
        for row, of_key in self._rows(file):
            reasons: list[str] = []
            for case in of_key:
                info = _candidate(self._declared[file.kernel], row)
                ids = [FIXED] if info is None else [FIXED, info.id]
                targets = [self._record(nodeid, name, case, ids, told) for name, told in found.items()]
                cases.append(CompiledCase(id=case.id, key=case.key, targets=targets))
                reasons += [
                    text for one in targets if one.target == own for text in row_failures(case.id, one.launches, own)
                ]
            if reasons:
                record = CommittedRecord(device=stem, key=row.key, config=row.config, nodeid=nodeid)
                failed.append(verdict(record, "not_qualified", *reasons))
        compiled = CompiledRows(kernel=file.kernel, nodeid=nodeid, device=file.device.name, target=own, cases=cases)
        return Checked(compiled, failed)

    def close(self) -> None:
        """End the processes that compile."""
        if "_ahead" in self.__dict__:
            self._ahead.close()

    @property
    def beside(self) -> bool:
        """Tell whether compiling disturbs nothing: kernels are interpreted, by this process alone."""
        return self._run.worker == "main" and self._run.device.hello().kind == "interpreter"

    @cached_property
    def _ahead(self) -> CompileAhead:
        timed = self._run.device.hello().kind != "interpreter"
        return CompileAhead(self._run.settings, beside=self.beside, timed=timed)

    @cached_property
    def _targets(self) -> list[str]:
        """Return the targets that committed files name, without those for which every launch is compiled anyway."""
        named = dict.fromkeys(target_of(file.device) for file in self._contents.files.values())
        asked = {find_target(name).name for name in self._run.settings.targets}
        return [name for name in named if name not in asked]

    def _wanted(self, file: CommittedFile) -> Iterator[Wanted]:
        """Yield what is asked about the spec of a file: all rows of all devices, each target once."""
        declared = self._declared.get(file.kernel)
        if declared is None or not self._run.settings.target_budget_s:
            return
        own = target_of(file.device)
        here = self._run.committed_device() == file.device
        configs: dict[str, dict[str, Any]] = {}
        for one in self._contents.files.values():
            if one.kernel == file.kernel:
                for row, cases in self._rows(one):
                    for case in cases:
                        of_case = configs.setdefault(case.id, {})
                        info = _candidate(declared, row)
                        if info is not None:
                            of_case[info.id] = info.config
        for target in sorted(self._targets, key=lambda name: name != own):
            if configs and not (here and target == own):  # the device itself tells more
                yield Wanted(
                    target=target,
                    path=declared.path,
                    spec=declared.spec.name,
                    configs={case: list(of_case.values()) for case, of_case in configs.items()},
                )

    def _rows(self, file: CommittedFile) -> Iterator[tuple[Row, list[CaseInfo]]]:
        """Yield the rows that can be used, each with the cases of its key; of others their own items tell."""
        spec = self._declared[file.kernel].spec
        cases = [case for case in spec.cases if not case.derived]
        today = DeclaredToday(
            space=spec.space,
            candidates=[Config(info.config) for info in spec.candidates],
            keys=[case.key for case in cases],
        )
        refused = {key_text(one.key or {}) for one in row_refusals(file, "", today)}
        for row in file.rows:
            if key_text(row.key) not in refused:
                yield row, [case for case in cases if key_text(case.key) == key_text(row.key)]

    def _record(
        self, nodeid: str, target: str, case: CaseInfo, ids: list[str], told: dict[str, list[TargetLaunch]] | None
    ) -> TargetRecord:
        """Return what the fixed launch and a row's config meet on a target."""
        if _problem(target):
            return TargetRecord(target=target, shared_limit_bytes=0, launches=[unknown(_problem(target))])
        if told is None:
            budget = f"--kernelqual-target-budget={self._run.settings.target_budget_s:g}s was over"
            launches = [TargetLaunch(id=id_, outcome="unknown", reason=budget) for id_ in ids]
        else:
            launches = [
                newly_fitting(launch, self._before.get((nodeid, case.id, target, launch.id)))
                for launch in told[case.id]
                if launch.id in ids
            ]
        return TargetRecord(target=target, shared_limit_bytes=find_target(target).shared_bytes, launches=launches)

    @cached_property
    def _before(self) -> Mapping[tuple[str, str, str, str], TargetOutcome]:
        """Return what the last report tells, which this run has not replaced yet."""
        try:
            last = read(self._run.report)
        except DocumentError:
            return {}
        return {
            (rows.nodeid, case.id, record.target, launch.id): launch.outcome
            for rows in last.compiled_rows
            for case in rows.cases
            for record in case.targets
            for launch in record.launches
        }


def _candidate(declared: Declared, row: Row) -> CandidateInfo | None:
    """Return the candidate that a row chose; None where it keeps the fixed launch."""
    chosen = (
        info
        for info in declared.spec.candidates
        if row.config is not None and Config(info.config) == Config(row.config)
    )
    return next(chosen, None)


def _problem(target: str) -> str:
    """Return why nothing can be compiled for a target that a committed file names; empty where it is known."""
    try:
        find_target(target)
    except SettingsError as error:
        return str(error)
    return ""
