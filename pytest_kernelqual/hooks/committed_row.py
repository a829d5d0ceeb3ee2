"""The test of one committed row: checks or measures it, within the budget."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from msgspec import Struct, structs, to_builtins

from pytest_kernelqual.committed.places import row_lines
from pytest_kernelqual.committed.schema import CommittedDevice, CommittedFile, key_text
from pytest_kernelqual.errors import DeviceProcessError, KernelqualError
from pytest_kernelqual.gating.arms import Arms, Place
from pytest_kernelqual.gating.refresh import refresh
from pytest_kernelqual.gating.row import Bench, Margins, check, verdict
from pytest_kernelqual.hooks.planning import kernel_nodeid
from pytest_kernelqual.hooks.refreshing import BUDGET, toolchain_of
from pytest_kernelqual.hooks.run import Declared, Run, TargetRow
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo, SpecInfo
from pytest_kernelqual.model.record import CandidateRecord, CommittedRecord, FixedRecord, KernelRecord, Proposal
from pytest_kernelqual.processes.device import STARTING, Device, Limits
from pytest_kernelqual.report.rows import committed_text
from pytest_kernelqual.session import CaseSession

_T = TypeVar("_T")


class KeyTarget(Struct, frozen=True):
    """What one item about a committed config checks."""

    declared: Declared
    key: dict[str, Any]
    cases: list[CaseInfo]
    device: CommittedDevice
    row: TargetRow

    @property
    def case_ids(self) -> list[str]:
        """Return the ids of all cases with the key, of those that are derived too: what must pass to commit a row."""
        return [case.id for case in self.declared.spec.cases if key_text(case.key) == key_text(self.key)]


class RowSession:
    """One row: checks or measures it, and says whether the item passes."""

    def __init__(
        self, run: Run, item: pytest.Item, target: KeyTarget, publish: Callable[[CommittedRecord], None]
    ) -> None:
        """Keep the row; nothing runs yet. `publish` hears of the finished record."""
        self._run = run
        self._item = item
        self._publish = publish
        self._target = target
        spec = target.declared.spec
        self._limits = Limits(
            inputs_s=run.settings.start_timeout_s,
            compile_s=spec.compile_timeout_s or run.settings.compile_timeout_s,
            run_s=spec.run_timeout_s or run.settings.run_timeout_s,
        )
        self._record = CommittedRecord(device=target.row.device, key=target.key, nodeid=item.nodeid)
        self._timing_since: float | None = None

    def run(self) -> None:
        """Reach a verdict and fail the test with it."""
        began = time.monotonic()
        try:
            record = self._checked()
        except DeviceProcessError as death:
            started = death.phase != STARTING  # else it is no kernel's fault
            told = f"while it was timed: {death.cause}"
            record = verdict(self._as_committed(), "not_qualified" if started else "unmeasurable", told)
        except KernelqualError as error:
            record = structs.replace(verdict(self._as_committed(), "not_timed", *_lines(error)), passed=False)
            # Whatever went wrong may have left a device unusable in these processes.
            self._run.restart()
        timed_at = self._run.timed_before.get(self._item.nodeid, "")
        if record.gates:
            timed_at = self._run.started_at.isoformat(timespec="seconds")
        file, line = self._place()
        self._record = structs.replace(
            record,
            nodeid=self._item.nodeid,
            file=file,
            line=line,
            timed_at=timed_at,
            duration_s=round(time.monotonic() - began, 3),
        )
        self._publish(self._record)
        if not record.passed:
            pytest.fail(committed_text(self._record), pytrace=False)

    def _place(self) -> tuple[str, int]:
        """Return where the row stands: the path of its file from the root, and the line."""
        path = self._run.store.path_for(self._target.declared.spec.name, self._target.device)
        root = self._item.config.rootpath
        if not path.is_file() or not path.is_relative_to(root):
            return "", 0
        return path.relative_to(root).as_posix(), row_lines(path).get(key_text(self._target.key), 0)

    def _checked(self) -> CommittedRecord:
        """Check the row or measure it, and count how long it was timed."""
        bench = self._bench()
        if bench.arms is None:
            return check(bench)
        try:
            record = self._refreshed(bench) if self._run.settings.update else check(bench)
        finally:
            if self._timing_since is not None:
                self._run.timing_s += time.monotonic() - self._timing_since
        # Where there is a device, not timed is not enough.
        return structs.replace(record, passed=False) if record.verdict == "not_timed" else record

    def _as_committed(self) -> CommittedRecord:
        """Return the blank record with the config of the row, where there is one."""
        target = self._target
        file = self._run.store.read(target.declared.spec.name, target.device)
        row = file.row(target.key) if isinstance(file, CommittedFile) else None
        return structs.replace(self._record, config=row.config if row is not None else None)

    def kernel_record(self) -> KernelRecord:
        """Return the item's record as it stands."""
        spec = self._target.declared.spec
        nodeid = kernel_nodeid(self._item)
        return KernelRecord(
            kernel=spec.name, nodeid=nodeid, screen=spec.screen, notes=spec.notes, committed=[self._record]
        )

    def _bench(self) -> Bench:
        target, run = self._target, self._run
        here, environment = run.committed_device(), run.environment()
        elsewhere = here is not None and here != target.device
        untimed = why_untimed(run, target.device, here)
        spec = target.declared.spec
        place = Place(target.declared.path, spec.name, target.cases[0].id, self._limits, spec.cache)

        def arms(device: Device, configs: Sequence[Config | None]) -> Arms:
            self._timing_since = self._timing_since or time.monotonic()
            return Arms(device, place, configs, exclusive=run.lock.exclusive, shared=run.lock.shared)

        return Bench(
            store=run.store,
            kernel=target.declared.spec.name,
            device=target.device if here is None or elsewhere else here,
            spec=target.declared.spec,
            key=target.key,
            cases=target.cases,
            qualify=self._qualify,
            arms=None if untimed else lambda configs: arms(run.device, configs),
            fresh=lambda configs: [arms(other, configs) for other in run.confirming],
            margins=_margins(target.declared.spec, run),
            fixed=self._fixed,
            toolchain=toolchain_of(environment) if here is not None and environment is not None else None,
            drift_fails=run.settings.drift_fails,
            untimed=untimed,
            elsewhere=elsewhere,
        )

    def _refreshed(self, bench: Bench) -> CommittedRecord:
        found = refresh(bench, fixed=lambda: self._qualified_fixed(bench))
        record = structs.replace(self._record, gates=[*([found.control] if found.control else []), *found.decided])
        record = structs.replace(record, production=found.production, reasons=[found.drift] if found.drift else [])
        if found.row is None:
            return verdict(record, "not_timed", found.reason)
        proposal = Proposal(
            kernel=bench.kernel,
            device=to_builtins(bench.device),
            space=bench.spec.space,
            row=to_builtins(found.row),
            cases=self._target.case_ids,
        )
        record = structs.replace(
            record, config=found.row.config, speed_up=found.row.speed_up, proposal=proposal, passed=True
        )
        return verdict(record, "ok", found.reason)

    def _qualified_fixed(self, bench: Bench) -> FixedRecord | None:
        """Return the fixed launch of the case that is timed; None unless it gave an output on all cases."""
        found = [self._run.known_fixed(self._target.declared, case) for case in bench.cases]
        return found[0] if all(one is not None and one.output for one in found) else None

    def _qualify(self, case: CaseInfo, info: CandidateInfo) -> CandidateRecord:
        """Return what this run found of a candidate, or find it now."""
        if self._run.known_fixed(self._target.declared, case) is None:
            self._learn(case)
        known = self._run.known_candidate(self._target.declared, case, info.id)
        return known if known is not None else self._now(case, lambda session: session.qualify(info))

    def _fixed(self, case: CaseInfo) -> FixedRecord:
        """Return what this run found of the fixed launch, or find it now."""
        if self._run.known_fixed(self._target.declared, case) is None:
            self._learn(case)
        known = self._run.known_fixed(self._target.declared, case)
        return known if known is not None else self._now(case, lambda session: session.fixed())

    def _learn(self, case: CaseInfo) -> None:
        """Take over what another worker of this run found of a case of the key."""
        nodeid = f"{kernel_nodeid(self._item)}::test_candidates[{case.id}]"
        self._run.learn(self._target.declared, case, nodeid)

    def _now(self, case: CaseInfo, find: Callable[[CaseSession], _T]) -> _T:
        """Find something out about a case."""
        session = CaseSession(
            self._target.declared.path,
            self._target.declared.spec,
            case,
            device=self._run.device,
            settings=self._run.settings,
            listener=_Remember(self._run, self._target.declared, case),
        )
        with self._run.lock.shared():
            return find(session)


class _Remember:
    """Keep what a case session finds for other items of this process."""

    def __init__(self, run: Run, declared: Declared, case: CaseInfo) -> None:
        self._run = run
        self._declared = declared
        self._case = case

    def fixed(self, record: FixedRecord) -> None:
        """Keep the fixed launch's record."""
        self._run.remember_fixed(self._declared, self._case, record)

    def candidate(self, record: CandidateRecord) -> None:
        """Keep a candidate."""
        self._run.remember(self._declared, self._case, record)

    def progress(self, candidate: str, done: int, total: int) -> None:
        """Show nothing."""


def _margins(spec: SpecInfo, run: Run) -> Margins:
    tolerance = spec.tolerance_pct or run.settings.tolerance_pct
    narrowest = min(filter(None, (tolerance, spec.near_best_pct, spec.decay_pct)))
    margins = Margins(fixed=tolerance / 100, control=narrowest / 100)
    if spec.near_best_pct is not None:
        margins = margins._replace(best=spec.near_best_pct / 100)
    if spec.decay_pct is not None:
        margins = margins._replace(decay_warn=spec.decay_pct / 200, decay_fail=spec.decay_pct / 100)
    return margins


def why_untimed(run: Run, device: CommittedDevice, here: CommittedDevice | None) -> str:
    """Return why rows of a device are not timed; empty where they are."""
    budget_s = run.settings.budget_s
    if here is None:
        return "no device: kernels are interpreted, and nothing is timed"
    if here != device:
        same = here.name == device.name
        theirs, ours = (f"{one.name}{_rest(one) if same else ''}" for one in (device, here))
        return f"measured on {theirs}, and this run uses {ours}"
    if budget_s is not None and run.timing_s >= budget_s:
        return f"{BUDGET}timing took {run.timing_s:.1f} s of --kernelqual-budget={budget_s:g}s before this row"
    return ""


def _rest(device: CommittedDevice) -> str:
    return f" ({device.architecture}, {device.compute_units} compute units)"


def _lines(error: Exception) -> tuple[str, ...]:
    """Return the first and the last line of a message, between which a traceback may be."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return (lines[0],) if len(lines) == 1 else (f"{lines[0]} {lines[-1]}",)
