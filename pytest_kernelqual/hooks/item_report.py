"""What travels with an item's report, and that record and report never tell different things."""

import re
from typing import Any

import pytest
from msgspec import Struct, structs

from pytest_kernelqual.files import strict_json
from pytest_kernelqual.hooks.run import Run
from pytest_kernelqual.model.record import CaseRecord, CommittedRecord, Environment, KernelRecord
from pytest_kernelqual.model.target_record import CompiledRows
from pytest_kernelqual.processes.compile_farm import Totals

LOG_SECTION = "kernelqual device log"

_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class ItemReport(Struct, frozen=True, kw_only=True):
    """The record of an item, and what its process knows of the run."""

    kernel: KernelRecord
    environment: Environment | None = None
    journal_problem: str = ""
    compiled: CompiledRows | None = None
    """Of an item about a committed file."""
    worker: str = ""
    farm: Totals | None = None
    """What that process has compiled so far."""


def attach(
    run: Run,
    report: pytest.TestReport,
    kernel: KernelRecord,
    *,
    handwritten: bool,
    compiled: CompiledRows | None = None,
) -> None:
    """Put an item's record on its report as one ASCII string and into the journal; on a failing one the log too."""
    known = run.known_environment
    uuid = known.device.uuid if known is not None else ""
    cases = [structs.replace(agreed(case, report, handwritten=handwritten), device_uuid=uuid) for case in kernel.cases]
    for case in cases:
        run.journal.case(case.nodeid, case)
    rows = [structs.replace(_agreed_row(row, report), device_uuid=uuid) for row in kernel.committed]
    for row in rows:
        run.journal.row(row.nodeid, row)
    sent = ItemReport(
        kernel=structs.replace(kernel, cases=cases, committed=rows),
        environment=known,
        journal_problem=run.journal_problem,
        compiled=compiled,
        worker=run.worker,
        farm=run.farm.totals,
    )
    # Extra attributes of reports travel under xdist, where a plain string is the only safe value.
    report.kernelqual_lost_device = run.lost_device  # type: ignore[attr-defined]
    report.kernelqual = strict_json.dump(sent).decode("ascii")  # type: ignore[attr-defined]
    log = _log(cases, run.device.log())
    if log and report.failed:
        report.sections.append((LOG_SECTION, log))


def detach(report: pytest.TestReport) -> ItemReport | None:
    """Return what `attach` put on a report."""
    text: str | None = getattr(report, "kernelqual", None)
    if text is None:
        return None
    sent: ItemReport = strict_json.convert(strict_json.parse(text.encode(), "report"), ItemReport, "report")
    return sent


def agreed(case: CaseRecord, report: pytest.TestReport, *, handwritten: bool) -> CaseRecord:
    """Return the case as its item ended: what fails one fails the other.

    A hand-written test that passes has judged its candidates itself.
    A test of ours that passes over failures was tampered with, and its record stays.
    """
    if report.passed:
        return structs.replace(case, passed=True, failures=[]) if handwritten else case
    if not case.passed and case.failures and report.when == "call" and report.failed and not handwritten:
        return case  # the item failed with these very lines
    told = f"the item {'was skipped' if report.skipped else 'failed'} in {report.when}: {why(report)}"
    return structs.replace(case, passed=False, failures=[told, *case.failures])


def _agreed_row(row: CommittedRecord, report: pytest.TestReport) -> CommittedRecord:
    """Return the row as its item ended."""
    if report.passed or not row.passed:
        return row
    return structs.replace(row, passed=False, reasons=[*row.reasons, f"the item failed: {why(report)}"])


def why(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the first line of what a failed or skipped report says."""
    told: Any = report.longrepr
    if hasattr(report, "wasxfail"):
        text = f"xfail {report.wasxfail}".strip()
    elif isinstance(told, tuple):
        text = str(told[2])
    else:
        crash = getattr(told, "reprcrash", None)
        text = crash.message if crash is not None else str(told)
    return (text.strip().splitlines() or ["no reason given"])[0]


def _log(cases: list[CaseRecord], rest: str) -> str:
    """Return the last words of device processes that died, then what came after, without control characters."""
    details = [detail for case in cases for detail in (case.fixed.detail, *(one.detail for one in case.candidates))]
    told = [str(detail.get("log", "")) for detail in details]
    # Candidates that are one program share one death.
    return "\n".join(_CONTROLS.sub("", text) for text in dict.fromkeys([*told, rest]) if text)
