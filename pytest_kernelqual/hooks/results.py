"""Collect records where the report is put together, and write it once, whatever ended the run."""

import shutil
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pytest_kernelqual.errors import DeviceProcessError, DocumentError, KernelqualError
from pytest_kernelqual.files import strict_json
from pytest_kernelqual.hooks.run import Run
from pytest_kernelqual.model.record import CaseRecord, Document, KernelRecord
from pytest_kernelqual.report.document import build, encode, write
from pytest_kernelqual.report.journal import read_plan, recover
from pytest_kernelqual.report.junit import case_properties, suite_properties
from pytest_kernelqual.report.text import summary

SESSION_NODEID = "kernelqual::session"

# With xunit1 these stand at their test case.
_PER_CASE = ("kernelqual.candidate ", "kernelqual.fixed ")


class Results:
    """Hooks of the process that reports: the only one, or xdist's controller."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        """Keep the run."""
        self._config = config
        self._run = run
        self._finished: dict[str, CaseRecord] = {}
        self._skipped: list[str] = []
        self._notes: list[str] = []
        self._document: Document | None = None
        self._written = ""
        self._previous_handler: Any = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Set an unfinished run's journal aside, and let SIGTERM end the run as Ctrl-C does."""
        self._check_device()
        if self._config.option.collectonly:
            return
        folder = self._run.journal_folder
        if folder.exists():
            aside = folder.with_name(folder.name + ".previous")
            shutil.rmtree(aside, ignore_errors=True)
            folder.rename(aside)
        self._previous_handler = signal.signal(signal.SIGTERM, self._terminated)

    def _check_device(self) -> None:
        """End the run at once when the asked device is not there; xdist's workers are told theirs elsewhere."""
        if self._config.pluginmanager.hasplugin("dsession") and self._run.settings.device == "interpreter":
            return
        try:
            self._run.device.hello()
        except DeviceProcessError as death:
            raise pytest.UsageError(
                f"--kernelqual: the device process did not start: {death.cause}\n{death.log}"
            ) from None
        except KernelqualError as error:
            raise pytest.UsageError(f"--kernelqual: {error}") from None

    def pytest_report_header(self) -> list[str]:
        """Say what was asked for and where results go."""
        settings = self._run.settings
        lines = [f"kernelqual: device {settings.device}, seed {settings.seed}, report {self._run.report}"]
        aside = self._run.journal_folder.with_name(self._run.journal_folder.name + ".previous")
        if aside.exists():
            lines.append(f"kernelqual: an earlier run did not finish; `kernelqual recover {aside}` shows what it found")
        return lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the record off a report."""
        text = getattr(report, "kernelqual", None)
        if report.skipped and report.nodeid != SESSION_NODEID:
            self._skipped.append(report.nodeid)
        if text is None:
            return
        record: KernelRecord = strict_json.convert(strict_json.parse(text.encode(), "report"), KernelRecord, "report")
        for case in record.cases:
            self._finished[case.nodeid] = case
            if self._junit_family() == "xunit1":
                report.user_properties.extend(case_properties(case))
            self._config.hook.pytest_kernelqual_case_finished(
                config=self._config, nodeid=case.nodeid, case=msgspec.to_builtins(case)
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[Any]:
        """Finish the report while an item can still fail for it."""
        try:
            return (yield)
        except KeyboardInterrupt:
            self._notes.append("the run was interrupted")
            raise
        except session.Failed as stopped:
            self._notes.append(str(stopped))
            raise
        finally:
            if not self._config.option.collectonly:
                self._finish(session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand the suite's properties to pytest's own JUnit file."""
        if self._document is None and not self._config.option.collectonly and self._run.plan is not None:
            self._finish(session)
        log: Any = _junit_log(self._config)
        if log is not None and self._document is not None:
            properties = suite_properties(self._document)
            if self._junit_family() == "xunit1":
                properties = [
                    item
                    for item in properties
                    if not item[0].startswith(("kernelqual.candidate ", "kernelqual.fixed "))
                ]
            for name, value in properties:
                log.add_global_property(name, value)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the summary of the report."""
        if self._document is None:
            return
        terminalreporter.section("kernelqual")
        width = terminalreporter._tw.fullwidth  # noqa: SLF001 - the width that pytest uses itself
        terminalreporter.write_line(summary(self._document, width=width))
        if self._written:
            terminalreporter.write_line(f"report: {self._written}")

    def pytest_unconfigure(self) -> None:
        """Restore the signal handler."""
        if self._previous_handler is not None:
            signal.signal(signal.SIGTERM, self._previous_handler)

    def _finish(self, session: pytest.Session) -> None:
        problems = []
        plan = self._run.plan
        folder = self._run.journal_folder
        try:
            plan = plan if plan is not None else read_plan(folder)
        except KernelqualError:
            if not self._finished:
                return  # nothing was collected: pytest says so itself
        kernels, environment, nodeids, because = recover(folder, plan=plan, finished=self._finished)
        if environment is not None:
            took = (self._now() - self._run.started_at).total_seconds()
            environment = structs.replace(
                environment,
                started_at=self._run.started_at.isoformat(timespec="seconds"),
                duration_s=round(took, 3),
            )
        self._document = build(kernels, environment, nodeids, [*because, *self._notes])
        ours = {case.nodeid for kernel in kernels for case in kernel.cases}
        skipped = [nodeid for nodeid in self._skipped if nodeid in ours]
        if skipped:
            problems.append(f"a qualification item was skipped, which hides its outcome: {', '.join(skipped[:3])}")
        if self._run.journal_problem:
            problems.append(f"the journal is incomplete: {self._run.journal_problem}")
        try:
            write(self._run.report, encode(self._document))
            self._written = str(self._run.report)
            shutil.rmtree(folder, ignore_errors=True)
        except DocumentError as error:
            problems.append(f"{error}; the records are kept: kernelqual recover {folder}")
        if problems:
            self._fail_session(session, problems)
        self._config.hook.pytest_kernelqual_report(config=self._config, report=msgspec.to_builtins(self._document))

    def _fail_session(self, session: pytest.Session, problems: list[str]) -> None:
        """Report what is known only at the end as a failed item, so that exit code, JUnit and summary agree."""
        for when in ("setup", "call", "teardown"):
            failed = when == "call"
            report = pytest.TestReport(
                nodeid=SESSION_NODEID,
                location=("kernelqual", None, "session"),
                keywords={},
                outcome="failed" if failed else "passed",
                longrepr="\n".join(problems) if failed else None,
                when=when,
            )
            session.config.hook.pytest_runtest_logreport(report=report)

    def _junit_family(self) -> str:
        return str(self._config.getini("junit_family"))

    def _now(self) -> Any:
        return type(self._run.started_at).now(self._run.started_at.tzinfo)

    def _terminated(self, _signal: int, _frame: FrameType | None) -> None:
        self._notes.append("the run was ended by SIGTERM")
        raise KeyboardInterrupt("SIGTERM")


def _junit_log(config: pytest.Config) -> Any:
    """Return pytest's JUnit writer, or None without --junitxml."""
    from _pytest.junitxml import xml_key  # noqa: PLC0415 - private, and needed by this function alone

    return config.stash.get(xml_key, None)
