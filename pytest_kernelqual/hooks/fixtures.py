"""Fixtures: handles on a case whose tensors live in the device process."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import structs

from pytest_kernelqual.errors import DeclarationError, KernelqualError
from pytest_kernelqual.hooks.committed import CommittedConfigs
from pytest_kernelqual.hooks.item_report import attach
from pytest_kernelqual.hooks.planning import PROBLEM, kernel_nodeid
from pytest_kernelqual.hooks.progress import Progress
from pytest_kernelqual.hooks.run import TARGET, Declared, Run, Target
from pytest_kernelqual.judge.targets import CommittedConfig, target_failures
from pytest_kernelqual.judge.verdict import candidate_fails
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CandidateInfo, InputInfo, OutputBytes
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, FixedRecord, KernelRecord
from pytest_kernelqual.model.values import shown
from pytest_kernelqual.processes.compile_farm import CaseName
from pytest_kernelqual.report.text import failure_text
from pytest_kernelqual.session import CaseSession


class Seeds:
    """The handle `seeded`: what the builder made for the first input set, as data."""

    def __init__(self, session: CaseSession, seed: int) -> None:
        """Keep where to ask; `seed` is the run's."""
        self.seed = seed
        self._session = session

    @property
    def inputs(self) -> list[InputInfo]:
        """Return name, shape, dtype, strides in elements and digest of each input."""
        return self._session.inputs()


class Declaration:
    """The test of a spec that cannot be used."""

    kernelqual_declared: Declared

    def test_declaration(self) -> None:
        """Fail with what is wrong with the declaration."""
        pytest.fail(self.kernelqual_declared.spec.problem, pytrace=False)


class Qualification:
    """The tests of a spec."""

    def test_candidates(self, kernelqual_session: Any) -> None:
        """Run every candidate on the same inputs and compare its bytes with the fixed launch."""
        kernelqual_session.qualify_all()


class ItemSession:
    """One item's case: runs it, journals it, and says whether the item passes."""

    def __init__(self, run: Run, item: pytest.Item, target: Target, *, progress: Progress) -> None:
        """Keep the case; nothing runs yet."""
        if target.case is None:
            raise DeclarationError("the item has no case")
        self._run = run
        self._item = item
        self._target = target
        self.shown = progress
        self._record: CaseRecord | None = None
        spec = target.declared.spec
        self.case = CaseSession(
            target.declared.path,
            # A hand-written test records the configs that it qualifies, declared or not, and no others.
            spec if _made_by_us(item) else structs.replace(spec, candidates=[]),
            target.case,
            device=run.device,
            settings=run.settings,
            listener=self,
            farm=run.farm,
        )

    @property
    def judged(self) -> bool:
        """Tell whether the whole case was run and has its verdict."""
        return self._record is not None

    def qualify_all(self) -> None:
        """Run the whole case and fail the test with its failures."""
        self._run.environment()
        with self._run.lock.shared():
            cases = _cases_to_compile(self._item, self._target)
            self._run.farm.prepare(cases, self._compiling)
            record = self.case.run()
            if self._run.settings.targets:
                # File by file, so that what is found shows early.
                cases = [case for case in cases if case.path == cases[0].path]
                records = self._run.targets.records(cases[0], cases[1:], self._compiling_for)
                failures = [*record.failures, *target_failures(records, self._committed())]
                record = structs.replace(record, targets=records, failures=failures, passed=not failures)
        self._record = record
        if record.passed:
            return
        told = failure_text(record)
        error = self._run.device.last_error
        if error is not None and not any(candidate_fails(item, screen=None) for item in record.candidates):
            # In-process, and no comparison failed: a debugger wants the frames of the kernel, and not ours.
            while type(error).__module__.startswith("triton.") and error.__cause__ is not None:
                error = error.__cause__  # what the interpreter wrapped
            error.add_note(told)
            raise error
        traceback = record.fixed.detail.get("traceback", "")
        pytest.fail(f"{told}\n{traceback}".rstrip(), pytrace=False)

    def qualify(self, config: Config) -> CandidateRecord:
        """Qualify one config for a hand-written test."""
        if not isinstance(config, Config):
            raise TypeError(f"qualify() takes a Config, not {shown(config)}")
        problem = config.problem()
        if problem:
            raise DeclarationError(problem)
        with self._run.lock.shared():
            return self.case.qualify(CandidateInfo(id=config.id, config=dict(config), program=config.id))

    def fixed_output(self) -> list[OutputBytes]:
        """Return the fixed launch's outputs; KernelqualError, shown at the test's own line, when there is none."""
        __tracebackhide__ = True
        try:
            with self._run.lock.shared():
                return self.case.fixed_output()
        except KernelqualError as error:
            raise error.with_traceback(None) from None

    def kernel_record(self) -> KernelRecord:
        """Return the item's record as it stands."""
        spec = self._target.declared.spec
        record = self._record or self.case.record()
        return KernelRecord(
            kernel=spec.name,
            nodeid=kernel_nodeid(self._item),
            screen=spec.screen,
            notes=spec.notes,
            cases=[structs.replace(record, nodeid=self._item.nodeid)],
        )

    def fixed(self, record: FixedRecord) -> None:
        """Journal the fixed launch, and keep its digest."""
        if self._target.case is not None:
            self._run.remember_fixed(self._target.declared, self._target.case, record)
        self._run.journal.fixed(self._item.nodeid, record)

    def candidate(self, record: CandidateRecord) -> None:
        """Journal a candidate, and keep it for the items about committed configs."""
        if self._target.case is not None:
            self._run.remember(self._target.declared, self._target.case, record)
        self._run.journal.candidate(self._item.nodeid, record)

    def _compiling(self, done: int, total: int) -> None:
        """Show how far compiling is."""
        self.shown.show(f"compiled {done}/{total}")

    def _committed(self) -> list[CommittedConfig]:
        """Return what committed files say of the case's key."""
        plugin: CommittedConfigs = self._item.config.pluginmanager.getplugin("kernelqual-committed")
        case, spec = self._target.case, self._target.declared.spec
        rows = [
            (one.device, one.row(case.key))
            for one in plugin.contents.files.values()
            if one.kernel == spec.name and case
        ]
        # Files sort the names of a config, and candidates are called as they were declared.
        names = {Config(info.config): info.id for info in spec.candidates}
        return [
            CommittedConfig(device, names.get(Config(row.config), Config(row.config).id))
            for device, row in rows
            if row and row.config
        ]

    def _compiling_for(self, target: str, done: int, total: int) -> None:
        self.shown.show(f"{target}: compiled {done}/{total}")

    def progress(self, candidate: str, done: int, total: int) -> None:
        """Show which candidate is running."""
        self.shown.show(f"{done + 1}/{total} {candidate}")


SESSION = pytest.StashKey[ItemSession]()


class Fixtures:
    """Fixtures of items of ours, and of hand-written tests marked `kernelqual`."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        """Keep the run."""
        self._config = config
        self._run = run

    @pytest.fixture
    def kernel_case(self, request: pytest.FixtureRequest) -> Any:
        """The case under test: `id`, `axes`, `key`."""
        target = self._target(request)
        return target.case

    @pytest.fixture
    def kernelqual_session(self, request: pytest.FixtureRequest, kernel_case: Any) -> Iterator[ItemSession]:
        """What the other fixtures are made of."""
        del kernel_case
        session = self._session(request.node, self._target(request))
        with session.shown:
            yield session

    @pytest.fixture
    def candidates(self, request: pytest.FixtureRequest, kernel_case: Any) -> list[Config]:
        """The candidate configs of the spec, in declared order."""
        del kernel_case
        return [Config(info.config) for info in self._target(request).declared.spec.candidates]

    @pytest.fixture
    def qualify(self, kernelqual_session: ItemSession) -> Callable[[Config], CandidateRecord]:
        """A function that qualifies one config and returns its record."""
        self._run.environment()
        return kernelqual_session.qualify

    @pytest.fixture
    def fixed_launch(self, kernelqual_session: ItemSession) -> Callable[[], list[OutputBytes]]:
        """A function that returns the fixed launch's outputs as host bytes."""
        self._run.environment()
        return kernelqual_session.fixed_output

    @pytest.fixture
    def seeded(self, kernelqual_session: ItemSession) -> Seeds:
        """What the builder made: the seed and each input's shape, dtype, strides and digest."""
        return Seeds(kernelqual_session.case, self._run.settings.seed)

    def _target(self, request: pytest.FixtureRequest) -> Target:
        callspec = getattr(request.node, "callspec", None)
        given = callspec.params.get("kernel_case") if callspec is not None else None
        if isinstance(given, Target):
            return given
        problem = getattr(given, "problem", None) or (
            "this test has no case: mark it @pytest.mark.kernelqual(spec), and take the fixtures as arguments"
        )
        pytest.fail(problem, pytrace=False)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Tell what is wrong with the marker of a test that asks for no fixture of ours."""
        if PROBLEM in item.stash and "kernel_case" not in getattr(item, "fixturenames", ()):
            pytest.fail(item.stash[PROBLEM], pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Hang the records and the device's log on the report; under xdist they travel with it."""
        report: pytest.TestReport = yield
        target = item.stash.get(TARGET, None)
        if (
            target is not None
            and target.case is not None
            and target.row is None
            and (call.when == "call" or not report.passed)
        ):
            session = self._session(item, target)
            # A test of ours that was ended before its verdict failed for a reason that its record does not hold.
            own_reasons = _made_by_us(item) and (session.judged or not report.failed)
            attach(self._run, report, session.kernel_record(), handwritten=not own_reasons)
        return report

    def _session(self, item: pytest.Item, target: Target) -> ItemSession:
        """Return the item's session; it is made when first needed, be it for the record of an item that never began."""
        if SESSION not in item.stash:
            self._run.device.log()  # what other items left there
            item.stash[SESSION] = ItemSession(self._run, item, target, progress=Progress(self._config))
        return item.stash[SESSION]


def _cases_to_compile(item: pytest.Item, target: Target) -> list[CaseName]:
    """Return the item's case, and those that this process will run."""
    targets = [target]
    # Under pytest-xdist nobody knows yet which worker will run them.
    if not hasattr(item.config, "workerinput"):
        targets += [one.stash[TARGET] for one in item.session.items if _made_by_us(one) and TARGET in one.stash]
    return [
        CaseName(one.declared.path, one.declared.spec.name, one.case.id)
        for one in targets
        if one.case is not None and one.row is None
    ]


def _made_by_us(item: pytest.Item) -> bool:
    return getattr(getattr(item, "cls", None), "kernelqual_declared", None) is not None
