"""Items about committed configs: one per spec, key and device, and one per file."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import Struct, structs, to_builtins

from pytest_kernelqual.committed.membership import Declared as DeclaredToday
from pytest_kernelqual.committed.membership import row_refusals
from pytest_kernelqual.committed.schema import CommittedDevice, CommittedFile, Key, key_text
from pytest_kernelqual.committed.store import Contents, is_looked_at
from pytest_kernelqual.errors import DeviceProcessError, KernelqualError
from pytest_kernelqual.gating.arms import Arms, Place
from pytest_kernelqual.gating.refresh import refresh
from pytest_kernelqual.gating.row import Bench, Margins, check, refused, verdict
from pytest_kernelqual.hooks.benchmark import Benchmarks
from pytest_kernelqual.hooks.item_report import attach
from pytest_kernelqual.hooks.planning import kernel_nodeid
from pytest_kernelqual.hooks.refreshing import BUDGET, toolchain_of
from pytest_kernelqual.hooks.run import Declared, Run, TargetRow
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo, SpecInfo
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CommittedRecord,
    FixedRecord,
    KernelRecord,
    Proposal,
)
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


ROW = pytest.StashKey["RowSession"]()


class CommittedTests:
    """The test of a spec's committed configs."""

    def test_committed(self, kernelqual_row: Any) -> None:
        """Check the committed config of a key on a device, or measure it anew under --kernelqual-update."""
        kernelqual_row.run()


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
        self._qualifying_s = 0.0

    def run(self) -> None:
        """Reach a verdict and fail the test with it."""
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
        self._record = structs.replace(record, nodeid=self._item.nodeid)
        self._publish(self._record)
        if not record.passed:
            pytest.fail(committed_text(self._record), pytrace=False)

    def _checked(self) -> CommittedRecord:
        """Check the row or measure it, and count how long it was timed."""
        bench = self._bench()
        if bench.arms is None:
            return check(bench)
        began = time.monotonic()
        try:
            record = self._refreshed(bench) if self._run.settings.update else check(bench)
        finally:
            self._run.timing_s += time.monotonic() - began - self._qualifying_s
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
        elsewhere = here is not None and here.name != target.device.name
        untimed = _untimed(run, target.device, here)
        place = Place(target.declared.path, target.declared.spec.name, target.cases[0].id, self._limits)

        def arms(device: Device, configs: Sequence[Config | None]) -> Arms:
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
        record = structs.replace(self._record, gates=[found.control] if found.control else [])
        record = structs.replace(record, production=found.production, reasons=[found.drift] if found.drift else [])
        if found.row is None:
            return verdict(record, "not_timed", found.reason)
        proposal = Proposal(
            kernel=bench.kernel, device=to_builtins(bench.device), space=bench.spec.space, row=to_builtins(found.row)
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
        known = self._run.known_candidate(self._target.declared, case, info.id)
        return known if known is not None else self._now(case, lambda session: session.qualify(info))

    def _fixed(self, case: CaseInfo) -> FixedRecord:
        """Return what this run found of the fixed launch, or find it now."""
        known = self._run.known_fixed(self._target.declared, case)
        return known if known is not None else self._now(case, lambda session: session.fixed())

    def _now(self, case: CaseInfo, find: Callable[[CaseSession], _T]) -> _T:
        """Find something out about a case; the time that it takes is not that of timing."""
        session = CaseSession(
            self._target.declared.path,
            self._target.declared.spec,
            case,
            device=self._run.device,
            settings=self._run.settings,
            listener=_Remember(self._run, self._target.declared, case),
        )
        began = time.monotonic()
        try:
            with self._run.lock.shared():
                return find(session)
        finally:
            self._qualifying_s += time.monotonic() - began


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


class CommittedConfigs:
    """Hooks about committed configs."""

    def __init__(self, config: pytest.Config, run: Run, benchmarks: Benchmarks) -> None:
        """Keep the run, and who takes samples; the folder is read once."""
        self._config = config
        self._benchmarks = benchmarks
        self._run = run
        self._contents: Contents | None = None
        self._specs: dict[str, SpecInfo] = {}
        """Specs by name, those with a problem too."""

    def has_rows(self, declared: Declared) -> bool:
        """Tell whether there is anything to check about a spec's committed configs."""
        self._specs[declared.spec.name] = declared.spec
        return not declared.spec.problem and bool(self._devices(declared.spec.name))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each spec one item per key and device."""
        declared: Declared | None = getattr(metafunc.cls, "kernelqual_declared", None)
        if declared is None or "kernelqual_key" not in metafunc.fixturenames:
            return
        targets = list(self._targets(declared))
        ids = [f"{Case(**target.key).id}-{_device_id(target.device.name)}" for target in targets]
        metafunc.parametrize("kernelqual_key", targets, ids=ids, indirect=True)

    def _targets(self, declared: Declared) -> Iterator[KeyTarget]:
        keys: dict[str, list[CaseInfo]] = {}
        for case in declared.spec.cases:
            keys.setdefault(key_text(case.key), []).append(case)
        for device in self._devices(declared.spec.name):
            for cases in keys.values():
                stem = self._run.store.path_for(declared.spec.name, device.name).stem
                yield KeyTarget(declared, cases[0].key, cases, device, TargetRow(stem, cases[0].key))

    def _devices(self, kernel: str) -> list[CommittedDevice]:
        """Return the devices that have a file of this kernel, and the one that this run uses."""
        found = {file.device.name: file.device for file in self.contents.files.values() if file.kernel == kernel}
        here = self._run.committed_device()
        if here is not None and (self._run.settings.update or self.contents.files):
            found[here.name] = here
        return [found[name] for name in sorted(found)]

    @property
    def contents(self) -> Contents:
        """Return what the folder of committed configs holds."""
        if self._contents is None:
            self._contents = self._run.store.read_all()
        return self._contents

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Collect files of the folder of committed configs."""
        if not file_path.is_relative_to(self._run.store.root) or not is_looked_at(file_path):
            return None
        collector: pytest.Collector = CommittedFileCollector.from_parent(parent, path=file_path)
        return collector

    @pytest.fixture
    def kernelqual_key(self, request: pytest.FixtureRequest) -> Any:
        """The row under test."""
        return request.param

    @pytest.fixture
    def kernelqual_row(self, request: pytest.FixtureRequest, kernelqual_key: KeyTarget) -> RowSession:
        """What checks the row."""
        item: pytest.Item = request.node
        item.stash[ROW] = RowSession(self._run, item, kernelqual_key, partial(self._benchmarks.publish, request))
        return item.stash[ROW]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Hang the record on the report."""
        report: pytest.TestReport = yield
        session = item.stash.get(ROW, None)
        if session is not None and call.when == "call":
            attach(self._run, report, session.kernel_record(), handwritten=False)
        elif isinstance(item, CommittedFileItem) and call.when == "call":
            attach(self._run, report, item.record, handwritten=False)
        return report

    def judge_file(self, path: Path) -> list[CommittedRecord]:
        """Return what is wrong with a committed file as a whole, and with rows that nothing reaches."""
        blank = CommittedRecord(device=path.stem, key={})
        contents = self.contents
        refusals = [refusal for refusal in contents.refusals if Path(refusal.path) == path]
        if refusals:
            return [refused(blank, refusal) for refusal in refusals]
        file = contents.files.get(path)
        if file is None:
            return [verdict(blank, "bad_file", f"{path}: is not where a kernel and device would be looked for")]
        spec = self._specs.get(file.kernel)
        if spec is None:
            if not self._run.default_paths or self._run.unreadable_specs:
                return []  # specs that were not collected may reach it
            told = f"{path}: no spec is called {file.kernel!r}; remove the file, or name the spec so"
            return [verdict(blank, "orphan", told)]
        if spec.problem:
            return []  # its own item tells it
        keys: list[Key] = [case.key for case in spec.cases]
        today = DeclaredToday(space=spec.space, candidates=[Config(info.config) for info in spec.candidates], keys=keys)
        return [
            verdict(
                structs.replace(blank, key=refusal.key or {}),
                "orphan" if refusal.code == "unknown_key" else "bad_file",
                str(refusal),
            )
            for refusal in row_refusals(file, str(path), today)
            if refusal.code in ("unknown_key", "wrong_type")
        ]


class CommittedFileCollector(pytest.File):
    """One file of committed configs."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield its only item."""
        yield CommittedFileItem.from_parent(self, name="file")


class CommittedFileItem(pytest.Item):
    """Check that a committed file can be read, and that something reaches each of its rows."""

    record: KernelRecord

    def runtest(self) -> None:
        """Fail with every reason."""
        configs: CommittedConfigs = self.config.pluginmanager.getplugin("kernelqual-committed")
        found = [structs.replace(one, nodeid=self.nodeid) for one in configs.judge_file(self.path)]
        self.record = KernelRecord(kernel=self.path.parent.name, nodeid=self.nodeid, committed=found)
        if any(not one.passed for one in found):
            pytest.fail("\n".join(committed_text(one) for one in found), pytrace=False)

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


def _margins(spec: SpecInfo, run: Run) -> Margins:
    tolerance = spec.tolerance_pct if spec.tolerance_pct is not None else run.settings.tolerance_pct
    return Margins(fixed=tolerance / 100)


def _untimed(run: Run, device: CommittedDevice, here: CommittedDevice | None) -> str:
    """Return why rows of a device are not timed; empty where they are."""
    budget_s = run.settings.budget_s
    if here is None:
        return "no device: kernels are interpreted, and nothing is timed"
    if here.name != device.name:
        return f"measured on {device.name}, and this run uses {here.name}"
    if budget_s is not None and run.timing_s >= budget_s:
        return f"{BUDGET}timing took {run.timing_s:.1f} s of --kernelqual-budget={budget_s:g}s before this row"
    return ""


def _lines(error: Exception) -> tuple[str, ...]:
    """Return the first and the last line of a message, between which a traceback may be."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return (lines[0],) if len(lines) == 1 else (f"{lines[0]} {lines[-1]}",)


def _device_id(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", name)
