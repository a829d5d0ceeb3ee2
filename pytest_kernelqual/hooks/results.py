"""Collect records where the report is put together, and write it once, whatever ended the run."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.store import UpdateReport
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.hooks.agreement import agreeing, hidden
from pytest_kernelqual.hooks.benchmark import Benchmarks
from pytest_kernelqual.hooks.device_check import look_for_device, usage_errors
from pytest_kernelqual.hooks.item_report import ItemReport, detach, why
from pytest_kernelqual.hooks.junit_log import close_testcases, junit_log
from pytest_kernelqual.hooks.options import targets_left_out
from pytest_kernelqual.hooks.refreshing import (
    over_budget,
    uncollected,
    undropped,
    untimed,
    with_writing_told,
    without_their_cases,
    write_proposals,
)
from pytest_kernelqual.hooks.run import Run, controls_workers
from pytest_kernelqual.hooks.signals import SIGTERM_TEXT, Signals
from pytest_kernelqual.model.record import CaseRecord, CommittedRecord, Document, Environment, KernelRecord
from pytest_kernelqual.model.target_record import CompiledRows
from pytest_kernelqual.processes.compile_farm import Totals
from pytest_kernelqual.report.compiled_rows import compiled_rows_summary
from pytest_kernelqual.report.devices import other_kinds, together
from pytest_kernelqual.report.document import build, encode, write
from pytest_kernelqual.report.entries import SESSION_NODEID
from pytest_kernelqual.report.journal import read_plan, recover, unfinished_case
from pytest_kernelqual.report.junit import PER_CASE, case_properties, suite_properties
from pytest_kernelqual.report.plan import NOTHING_SELECTED
from pytest_kernelqual.report.rows import refresh_summary, rows_summary
from pytest_kernelqual.report.session_folder import SessionFolder
from pytest_kernelqual.report.targets import targets_summary
from pytest_kernelqual.report.text import summary

# pytest-xdist's name for the phase in which a worker died.
_CRASH = "???"


class Results:
    """Hooks of the process that reports: the only one, or xdist's controller."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        """Keep the run."""
        self._config = config
        self._run = run
        self._signals = Signals()
        self._folder: SessionFolder | None = None
        self._finished: dict[str, CaseRecord] = {}
        self._rows: dict[str, CommittedRecord] = {}
        self._files: list[KernelRecord] = []
        """What is wrong with committed files as a whole."""
        self._compiled: dict[str, CompiledRows] = {}
        """Rows on devices that this run does not have, by the item of their file."""
        self._farms: dict[str, Totals] = {}
        """By worker."""
        self._refreshed: list[UpdateReport | Refusal] | None = None
        self._environments: list[Environment] = []
        """What workers told with their reports, each once."""
        self._failed: dict[str, str] = {}
        """What failed by pytest's own account, and why."""
        self._running: dict[tuple[str, Any], pytest.TestReport] = {}
        self._reported: set[str] = set()
        """Setup reports of items that have not ended, by node id and worker."""
        self._notes: list[str] = []
        """What makes the report incomplete."""
        self._problems: list[str] = []
        """What fails the session."""
        self._document: Document | None = None
        self._written = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Claim the journal's folder, let SIGTERM end the run as Ctrl-C does, and look for the device."""
        with usage_errors():
            if not self._config.option.collectonly:
                self._signals.install()
                self._folder = SessionFolder(self._run.journal_folder)
            if not controls_workers(self._config):
                look_for_device(self._run)
            elif self._run.settings.device != "interpreter":
                self._run.device.begin()  # beside the workers and theirs; `Distribution` asks it
            if self._run.settings.update and not self._config.option.collectonly:
                self._run.store.check_writable()

    def pytest_report_header(self) -> list[str]:
        """Say what was asked for and where results go."""
        settings = self._run.settings
        lines = [f"kernelqual: device {settings.device}, seed {settings.seed}, report {self._run.report}"]
        aside = self._folder.aside if self._folder is not None else None
        if aside is not None:
            lines.append(f"kernelqual: an earlier run did not finish; `kernelqual recover {aside}` shows what it found")
        return lines

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Read the plan while it is there: a worker has just written it."""
        self._read_plan()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what could not be collected: it may have declared something."""
        if report.failed:
            self._note(f"{report.nodeid or 'the session'} could not be collected: {why(report)}")
        elif report.skipped:
            self._note(f"{report.nodeid} was skipped while it was collected: {why(report)}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Iterator[None]:
        """Take the record off a report, and give JUnit's test cases their properties."""
        if report.nodeid != SESSION_NODEID:
            self._take(report)
        case = self._finished.get(report.nodeid)
        log = junit_log(self._config)
        if case is not None and log is not None and log.family == "xunit1" and report.when != "setup":
            report.user_properties.extend(case_properties(case))
        yield
        running = report.nodeid, getattr(report, "node", None)
        if report.when == "setup":
            self._running[running] = report
            self._reported.add(report.nodeid)
        elif report.when in ("teardown", _CRASH):
            self._running.pop(running, None)
        if report.when == _CRASH and log is not None:
            log.finalize(report)  # no report of a teardown will do it

    def _take(self, report: pytest.TestReport) -> None:
        sent = detach(report)
        if sent is not None:
            if sent.environment is not None and sent.environment not in self._environments:
                self._environments.append(sent.environment)
            if sent.journal_problem:
                self._problems.append(f"the journal is incomplete: {sent.journal_problem}")
            self._finished.update({case.nodeid: case for case in sent.kernel.cases})
            self._rows.update({row.nodeid: row for row in sent.kernel.committed})
            if sent.kernel.nodeid == report.nodeid and sent.kernel.committed:
                self._files.append(sent.kernel)
            self._take_compiled(report.nodeid, sent)
        if report.failed or report.skipped:
            self._failed.setdefault(report.nodeid, why(report))
        if report.skipped:
            told = f"a qualification item was skipped, which hides its outcome: {report.nodeid}: {why(report)}"
            self._problems.append(told)
        if report.when == _CRASH:
            self._take_crashed(report)
        case = self._finished.get(report.nodeid)
        if case is not None and report.when in ("teardown", _CRASH):
            self._tell(
                self._config.hook.pytest_kernelqual_case_finished, nodeid=case.nodeid, case=msgspec.to_builtins(case)
            )

    def _take_compiled(self, nodeid: str, sent: ItemReport) -> None:
        if sent.compiled is not None:
            self._compiled[nodeid] = sent.compiled
        if sent.farm is not None:
            self._farms[sent.worker] = sent.farm

    def _take_crashed(self, report: pytest.TestReport) -> None:
        """Take what the dead worker had journalled of its running item."""
        if self._read_plan() and self._run.plan is not None:
            gateway = getattr(getattr(report, "node", None), "gateway", None)
            worker = str(getattr(gateway, "id", ""))
            case = unfinished_case(self._run.journal_folder, self._run.plan, report.nodeid, worker)
            if case is not None:
                self._note(why(report))
                self._finished[report.nodeid] = structs.replace(
                    case, passed=False, failures=[why(report), *case.failures]
                )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[Any]:
        """Finish the report while an item can still fail for it."""
        cut_short = True
        try:
            result = yield
            cut_short = False
        except BaseException as error:
            self._note(_ending(error))
            raise
        else:
            return result
        finally:
            if not self._config.option.collectonly:
                self._finish(session, cut_short=cut_short)

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note an error of pytest, a plugin or a worker, after which nothing can be called complete."""
        text = (str(excinfo.value).strip().splitlines() or [excinfo.typename])[-1]
        self._note(f"internal error: {text}")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note what ended the run before its items began."""
        self._note(_ending(excinfo.value))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Hand the suite's properties to pytest's own JUnit file."""
        self._signals.ignore()
        collecting_ended = self._document is None and exitstatus != pytest.ExitCode.USAGE_ERROR
        if collecting_ended and not self._config.option.collectonly:
            self._finish(session, cut_short=True)
        log = junit_log(self._config)
        if log is not None and self._document is not None:
            close_testcases(log, self._document, self._running, self._reported, "; ".join(self._notes))
            for name, value in suite_properties(self._document):
                if log.family != "xunit1" or not name.startswith(PER_CASE):
                    log.add_global_property(name, value)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the summary of the report."""
        if self._document is None:
            return
        terminalreporter.section("kernelqual")
        width = terminalreporter._tw.fullwidth  # noqa: SLF001 - the width that pytest uses itself
        terminalreporter.write_line(summary(self._document, width=width))
        rows = [row for kernel in self._document.kernels for row in kernel.committed]
        benchmarks: Benchmarks = self._config.pluginmanager.getplugin("kernelqual-benchmark")
        for told in (
            Totals.together(self._farms.values()).told(),
            targets_summary(self._document.kernels),
            "\n".join(targets_left_out(self._config)),
            compiled_rows_summary(self._document.compiled_rows),
            rows_summary(self._document.kernels),
            refresh_summary(self._refreshed or []),
            benchmarks.told(rows),
        ):
            if told:
                terminalreporter.write_line(f"\n{told}")
        if self._written:
            terminalreporter.write_line(f"report: {self._written}")

    def pytest_unconfigure(self) -> None:
        """Restore the signal handler and give up the journal's folder."""
        if self._folder is not None:
            self._folder.release(keep=not self._written)
            self._folder = None
        self._signals.restore()

    def _note(self, text: str) -> None:
        if text not in self._notes:  # pytest tells of one ending through several hooks
            self._notes.append(text)

    def _finish(self, session: pytest.Session, *, cut_short: bool) -> None:
        with self._signals.held():
            self._report(cut_short=cut_short)
        if self._document is not None:
            report = msgspec.to_builtins(self._document)
            told = len(self._problems)
            self._tell(self._config.hook.pytest_kernelqual_report, report=report)
            if len(self._problems) > told:
                self._notes += self._problems[told:]
                with self._signals.held():
                    self._report(cut_short=cut_short)
        if self._problems:
            self._fail_session(session)

    def _report(self, *, cut_short: bool) -> None:
        """Build the report and write it."""
        if not self._read_plan():
            if self._finished:
                self._problems.append(f"the plan of the run is gone from {self._run.journal_folder}: no report")
            return
        if self._run.journal_problem:
            self._problems.append(f"the journal is incomplete: {self._run.journal_problem}")
        kernels, environment, nodeids, because = recover(
            self._run.journal_folder, plan=self._run.plan, finished=self._finished, rows=self._rows
        )
        # Workers report in any order; a serial run tells the same.
        kernels += sorted(self._files, key=lambda kernel: kernel.nodeid)
        if not kernels:
            because.append(NOTHING_SELECTED)
        kernels, missed = agreeing(kernels, self._failed)
        unseen = [] if cut_short else hidden(kernels, self._failed)
        if unseen:
            more = f" (and {len(unseen) - 1} more)" if len(unseen) > 1 else ""
            self._problems.append(f"the report holds a failure that no item shows: {unseen[0]}{more}")
        told = [*([environment] if environment is not None else []), *self._environments]
        environment = self._stamped(together(told))
        self._problems += filter(None, [other_kinds(told)])
        if not cut_short:
            self._problems += untimed(kernels, environment)
            if self._run.default_paths:
                self._problems += uncollected(self._run.store, self._config.rootpath, nodeids)
        because += [*missed, *over_budget(kernels), *self._notes]
        if self._run.settings.update:
            self._problems += [] if cut_short else without_their_cases(kernels)
            self._write_rows(kernels, environment, complete=not because and not self._problems)
            kernels = with_writing_told(kernels)
        self._problems = list(dict.fromkeys(self._problems))
        document = build(kernels, environment, nodeids, because, self._run.plan, self._problems)
        compiled = [rows for _, rows in sorted(self._compiled.items())]
        document = self._document = structs.replace(document, compiled_rows=compiled)
        try:
            write(self._run.report, encode(document))
            self._written = str(self._run.report)
        except DocumentError as error:
            self._problems.append(f"{error}; the records are kept: kernelqual recover {self._run.journal_folder}")
            self._document = structs.replace(document, complete=False, session_problems=[*self._problems])

    def _write_rows(self, kernels: list[KernelRecord], environment: Environment | None, *, complete: bool) -> None:
        """Write what was measured, once in a run."""
        if self._refreshed is None:
            self._refreshed = write_proposals(self._run.store, kernels, environment, complete=complete)
            self._problems += [str(report) for report in self._refreshed if isinstance(report, Refusal)]
            self._problems += undropped(self._files, self._refreshed)

    def _read_plan(self) -> bool:
        """Take the plan that a worker has written, where this process made none; tell whether there is one."""
        if self._run.plan is None:
            try:
                self._run.plan = read_plan(self._run.journal_folder)
            except DocumentError:
                return False
        return True

    def _stamped(self, environment: Environment | None) -> Environment | None:
        if environment is None:
            return None
        began = self._run.started_at
        took = (type(began).now(began.tzinfo) - began).total_seconds()
        return structs.replace(environment, started_at=began.isoformat(timespec="seconds"), duration_s=round(took, 3))

    def _tell(self, hook: Callable[..., Any], **values: Any) -> None:
        """Call a hook of the user; what it raises fails the session and loses nothing."""
        try:
            hook(config=self._config, **values)
        except Exception as error:  # noqa: BLE001 - whatever a user's hook raises
            name = getattr(hook, "name", "a hook")
            self._problems.append(f"{name} raised {type(error).__name__}: {error}")

    def _fail_session(self, session: pytest.Session) -> None:
        """Report what is known only at the end as a failed item, so that exit code, JUnit and summary agree."""
        for when in ("setup", "call", "teardown"):
            failed = when == "call"
            report = pytest.TestReport(
                nodeid=SESSION_NODEID,
                location=("kernelqual", None, "session"),
                keywords={},
                outcome="failed" if failed else "passed",
                longrepr="\n".join(self._problems) if failed else None,
                when=when,
            )
            session.config.hook.pytest_runtest_logreport(report=report)


def _ending(error: BaseException) -> str:
    """Say in words what ended the run."""
    if isinstance(error, KeyboardInterrupt) and error.args == (SIGTERM_TEXT,):
        return "the run was ended by SIGTERM"
    if isinstance(error, pytest.Session.Failed | KeyboardInterrupt):  # of which pytest and xdist have their own
        return str(error) or "the run was interrupted"
    if isinstance(error, pytest.exit.Exception):
        return f"pytest.exit: {error.msg}"
    return f"the run was ended by {type(error).__name__}: {error}"
