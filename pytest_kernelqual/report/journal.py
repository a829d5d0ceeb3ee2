"""The journal of a run: what was planned, and every record as soon as it exists, so that a killed run loses nothing.

A session folder holds `plan.json`, written once, and one append-only `<worker>.jsonl` per worker.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct, field, structs

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import strict_json
from pytest_kernelqual.files.atomic import PathText, write_once
from pytest_kernelqual.judge.verdict import candidate_fails
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    CommittedRecord,
    Environment,
    FixedRecord,
    KernelRecord,
)
from pytest_kernelqual.report.devices import together
from pytest_kernelqual.report.plan import PLAN_SCHEMA, Plan, PlannedCase, PlannedRow

PLAN_FILE = "plan.json"

Recovered = tuple[list[KernelRecord], Environment | None, list[str], list[str]]

_WORKER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class FixedLine(Struct, frozen=True, kw_only=True, tag_field="line", tag="fixed"):
    """The fixed launch of a case has ended."""

    nodeid: str
    record: FixedRecord


class CandidateLine(Struct, frozen=True, kw_only=True, tag_field="line", tag="candidate"):
    """A candidate of a case has its outcome."""

    nodeid: str
    record: CandidateRecord


class CaseLine(Struct, frozen=True, kw_only=True, tag_field="line", tag="case"):
    """A case is finished."""

    nodeid: str
    record: CaseRecord


class EnvironmentLine(Struct, frozen=True, kw_only=True, tag_field="line", tag="environment"):
    """The device process told where it runs."""

    environment: Environment


class NoteLine(Struct, frozen=True, kw_only=True, tag_field="line", tag="note"):
    """Something that makes the run incomplete, for example the signal that stopped it."""

    text: str


class RowLine(Struct, frozen=True, kw_only=True, tag_field="line", tag="row"):
    """A committed row has its verdict."""

    nodeid: str
    record: CommittedRecord


Line = FixedLine | CandidateLine | CaseLine | RowLine | EnvironmentLine | NoteLine


class Journal:
    """Append to the journal of one worker; each record is one write, so that a kill tears the last line at most.

    A write that fails does not end the run: `problem` tells the first one and the run goes on.
    """

    def __init__(self, folder: PathText, worker: str) -> None:
        """Open the file of `worker` in `folder`, which is created where it is missing.

        Raises:
            DocumentError: The folder or file cannot be used, or `worker` is no plain name.
        """
        if not _WORKER.fullmatch(worker):
            raise DocumentError(f"worker name {worker!r} is no file name; use letters, digits, '_', '.' and '-'")
        self.folder = Path(folder)
        self.problem = ""
        self._path = self.folder / f"{worker}.jsonl"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            # A line that a killed predecessor left torn must not swallow the first of ours.
            self._torn = _ends_torn(self._descriptor)
        except OSError as error:
            raise DocumentError(
                f"cannot journal to {str(self._path)!r}: {error.strerror or error}; "
                "give a folder that can be written and has room"
            ) from error

    @classmethod
    def lost(cls, folder: PathText, problem: str) -> Self:
        """Return a journal that takes everything and keeps nothing, because of `problem`."""
        journal = cls.__new__(cls)
        journal.folder = journal._path = Path(folder)  # noqa: SLF001 - of this very class
        journal.problem = problem
        journal._descriptor, journal._torn = -1, False  # noqa: SLF001 - the same
        return journal

    def plan(self, plan: Plan) -> None:
        """Write down what is to be run; every worker may do so, and all must plan the same.

        Raises:
            DocumentError: Another plan is already there.
        """
        path = self.folder / PLAN_FILE
        try:
            if write_once(path, strict_json.dump(plan, indent=True)):
                return
        except DocumentError as error:
            self._remember(str(error))
            return
        there = read_plan(self.folder)
        if _same_for_all(there) != _same_for_all(plan):
            raise DocumentError(
                f"{str(path)!r} holds another plan ({_size(there)}) than this worker's ({_size(plan)}): "
                "every worker must collect the same items; use a fresh folder for a new run"
            )

    def fixed(self, nodeid: str, record: FixedRecord) -> None:
        """Append the outcome of the fixed launch of the case at `nodeid`."""
        self._append(FixedLine(nodeid=nodeid, record=record))

    def candidate(self, nodeid: str, record: CandidateRecord) -> None:
        """Append the outcome of one candidate of the case at `nodeid`."""
        self._append(CandidateLine(nodeid=nodeid, record=record))

    def case(self, nodeid: str, record: CaseRecord) -> None:
        """Append the finished case at `nodeid`."""
        self._append(CaseLine(nodeid=nodeid, record=record))

    def row(self, nodeid: str, record: CommittedRecord) -> None:
        """Append the verdict of the committed row at `nodeid`."""
        self._append(RowLine(nodeid=nodeid, record=record))

    def environment(self, environment: Environment) -> None:
        """Append where the worker runs."""
        self._append(EnvironmentLine(environment=environment))

    def note(self, text: str) -> None:
        """Append why the run is incomplete, for example the signal that stopped it."""
        self._append(NoteLine(text=text))

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self.close()

    def _append(self, line: Line) -> None:
        try:
            data = strict_json.dump(line)
            if self._torn:
                data = b"\n" + data
            written = os.write(self._descriptor, data)
            self._torn = written < len(data)
            if self._torn:
                self._remember(
                    f"{str(self._path)!r}: only {written} of {len(data)} bytes were written; free disk space"
                )
        except (OSError, DocumentError) as error:
            self._remember(f"{str(self._path)!r}: {error}; records from here on may be missing in the journal")

    def _remember(self, problem: str) -> None:
        self.problem = self.problem or problem


def read_plan(folder: PathText) -> Plan:
    """Return the plan of a session folder.

    Raises:
        DocumentError: There is none, or it cannot be read.
    """
    path = Path(folder) / PLAN_FILE
    source = ascii(str(path))[1:-1]
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise DocumentError(
            f"cannot read '{source}': {why}; give the journal folder of a run that has collected its items"
        ) from error
    plain = strict_json.parse(data, source)
    if not isinstance(plain, dict) or plain.get("schema") != PLAN_SCHEMA:
        seen = plain.get("schema") if isinstance(plain, dict) else plain
        raise DocumentError(f"{source}: schema is {seen!a}; this version reads {PLAN_SCHEMA!r}")
    plan: Plan = strict_json.convert(plain, Plan, source)
    return plan


def _same_for_all(plan: Plan) -> bytes:
    # Workers may run on different devices and begin at different times.
    return strict_json.dump(structs.replace(plan, environment=None))


def _size(plan: Plan) -> str:
    cases = [case for kernel in plan.kernels for case in kernel.cases]
    return f"{len(plan.kernels)} kernels, {len(cases)} cases, {sum(len(case.candidates) for case in cases)} candidates"


def _ends_torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def recover(
    folder: PathText,
    *,
    plan: Plan | None = None,
    finished: Mapping[str, CaseRecord] | None = None,
    rows: Mapping[str, CommittedRecord] | None = None,
) -> Recovered:
    """Return kernels in planned order, environment, node ids, and why the run is incomplete (empty when it is not).

    Finished cases stand as they are.
    In others what was journalled stands, and the rest is `not_run`.
    Lines that cannot be read are left out and named among the reasons.
    A process that still lives gives its `plan` and the cases and rows that it knows to be finished, by node id.

    Raises:
        DocumentError: No plan is given and the folder has no readable one.
    """
    plan = plan or read_plan(folder)
    found = _Found(cases=dict(finished or {}), rows=dict(rows or {}), reasons=list(plan.incomplete_because))
    found.read(Path(folder))
    kernels = [
        KernelRecord(
            kernel=kernel.kernel,
            nodeid=kernel.nodeid,
            line=kernel.line,
            screen=kernel.screen,
            notes=kernel.notes,
            cases=[_case(case, found, kernel.screen) for case in kernel.cases],
            committed=[_row(row, found) for row in kernel.rows],
            problem=kernel.problem,
        )
        for kernel in plan.kernels
    ]
    found.reasons.extend(_gaps(plan, found))
    return kernels, together(found.environments) or plan.environment, plan.nodeids, list(dict.fromkeys(found.reasons))


def unfinished_case(folder: PathText, plan: Plan, nodeid: str, worker: str = "") -> CaseRecord | None:
    """Return what a worker that died has journalled of the case at `nodeid`; None where the plan does not name it."""
    found = _Found()
    found.read(Path(folder))
    found.devices.setdefault(nodeid, found.device_of.get(worker, ""))
    for kernel in plan.kernels:
        for case in kernel.cases:
            if case.nodeid == nodeid:
                return _case(case, found, kernel.screen, "the worker")
    return None


class _Found(Struct):
    """What the workers wrote down."""

    fixed: dict[str, FixedRecord] = field(default_factory=dict)
    candidates: dict[str, dict[str, CandidateRecord]] = field(default_factory=dict)
    cases: dict[str, CaseRecord] = field(default_factory=dict)
    rows: dict[str, CommittedRecord] = field(default_factory=dict)
    environments: list[Environment] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    device_of: dict[str, str] = field(default_factory=dict)
    """By worker: the device that it told of."""
    devices: dict[str, str] = field(default_factory=dict)
    """By node id: the device on which a case ran."""

    def read(self, folder: Path) -> None:
        """Take in the journals of all workers."""
        for path in sorted(folder.glob("*.jsonl"), key=lambda path: (len(path.name), path.name)):
            for line in _lines(path, self.reasons):
                self.add(line)
                if isinstance(line, EnvironmentLine):
                    self.device_of[path.stem] = line.environment.device.uuid
                elif isinstance(line, FixedLine | CandidateLine):
                    self.devices[line.nodeid] = self.device_of.get(path.stem, "")

    def add(self, line: Line) -> None:
        """Take one line in; where two tell of the same thing, the one that is not good stands."""
        if isinstance(line, CaseLine):
            if line.nodeid not in self.cases or not line.record.passed:
                self.cases[line.nodeid] = line.record
        elif isinstance(line, RowLine):
            if line.nodeid not in self.rows or not line.record.passed:
                self.rows[line.nodeid] = line.record
        elif isinstance(line, CandidateLine):
            found = self.candidates.setdefault(line.nodeid, {})
            if line.record.id not in found or line.record.outcome != "qualified":
                found[line.record.id] = line.record
        elif isinstance(line, FixedLine):
            if line.nodeid not in self.fixed or line.record.outcome != "qualified":
                self.fixed[line.nodeid] = line.record
        elif isinstance(line, NoteLine):
            self.reasons.append(line.text)
        else:
            self.environments.append(line.environment)


def _lines(path: Path, reasons: list[str]) -> Iterator[Line]:
    try:
        data = path.read_bytes()
    except OSError as error:
        reasons.append(f"{path.name} cannot be read: {error.strerror or error}")
        return
    for number, text in enumerate(data.split(b"\n"), 1):
        if not text:
            continue
        source = f"{path.name} line {number}"
        try:
            yield strict_json.convert(strict_json.parse(text, source), Line, source)
        except DocumentError as error:
            reasons.append(f"a journal line cannot be read and is left out: {error}")


def _case(planned: PlannedCase, found: _Found, screen: str | None, who: str = "the run") -> CaseRecord:
    if planned.nodeid in found.cases:
        return found.cases[planned.nodeid]
    fixed = found.fixed.get(planned.nodeid) or FixedRecord(
        outcome="not_run", reason=f"{who} ended before the fixed launch was done"
    )
    not_run = {
        id_: CandidateRecord(id=id_, config=config, outcome="not_run", reason=f"{who} ended before this candidate")
        for id_, config in planned.candidates
    }
    candidates = list({**not_run, **found.candidates.get(planned.nodeid, {})}.values())
    failing = [record for record in candidates if candidate_fails(record, screen=screen)]
    return CaseRecord(
        id=planned.id,
        case=planned.case,
        key=planned.key,
        ran_as=planned.ran_as,
        nodeid=planned.nodeid,
        fixed=fixed,
        candidates=candidates,
        passed=False,
        failures=[
            *(f"{record.id}: {record.outcome}: {record.reason}" for record in failing),
            f"{who} ended before this case was finished",
        ],
        device_uuid=found.devices.get(planned.nodeid, ""),
    )


def _row(planned: PlannedRow, found: _Found) -> CommittedRecord:
    return found.rows.get(planned.nodeid) or CommittedRecord(
        device=planned.device,
        key=planned.key,
        nodeid=planned.nodeid,
        reasons=["the run ended before this row was checked"],
    )


def _gaps(plan: Plan, found: _Found) -> Iterator[str]:
    """Tell where plan and journal do not cover each other."""
    planned = {case.nodeid for kernel in plan.kernels for case in kernel.cases}
    unfinished = len(planned - found.cases.keys())
    if unfinished:
        yield f"the run ended before {unfinished} of {len(planned)} cases were finished"
    rows = {row.nodeid for kernel in plan.kernels for row in kernel.rows}
    if rows - found.rows.keys():
        yield f"the run ended before {len(rows - found.rows.keys())} of {len(rows)} committed rows were checked"
    for nodeid in sorted({*found.cases, *found.candidates, *found.fixed} - planned):
        yield f"records of {nodeid} are left out: the plan does not name it"
