"""What needs a look in the records of a run: one entry for each, with its reason in words."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from pytest_kernelqual.judge.evidence import falls_short
from pytest_kernelqual.judge.verdict import candidate_fails
from pytest_kernelqual.model.outcome import PASSING
from pytest_kernelqual.model.profiles import NORMAL
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, Document, FixedRecord, KernelRecord, Mismatch
from pytest_kernelqual.report.phrases import and_more, clean, counted
from pytest_kernelqual.report.rows import row_name, warned

SESSION_NODEID = "kernelqual::session"
"""The item that fails by what is known only at the end of a run."""

LONGEST_NAME = 60
LONGEST_REASON = 300


class Entry(NamedTuple):
    """Something of a kernel, in clean words; `name` is that of a candidate."""

    kernel: str
    case: str
    name: str
    outcome: str
    why: str


def session_failures(document: Document) -> Iterator[Entry]:
    """Yield what failed the session as a whole."""
    for problem in document.session_problems:
        yield Entry(SESSION_NODEID, "", "", "", clean(problem, LONGEST_REASON) or "without a reason")


def other_reasons(document: Document) -> list[str]:
    """Return why a document is incomplete, less what failed the session and is told as that."""
    return [reason for reason in document.incomplete_because if reason not in document.session_problems]


def problems(kernels: Iterable[KernelRecord]) -> Iterator[Entry]:
    """Yield kernels of which nothing ran."""
    for kernel in kernels:
        told = [line for line in kernel.problem.splitlines() if line.strip()]
        if kernel.problem and not told:
            told = ["without a reason"]
        if told:  # of a traceback, the first line says what was done and the last what went wrong
            first, last = told[0].strip(), told[-1].strip()
            why = first if last in first else f"{first} ... {last}"
            yield Entry(clean(kernel.kernel, LONGEST_NAME), "", "", "", clean(why, LONGEST_REASON))


def fixed_failures(kernels: Iterable[KernelRecord]) -> Iterator[Entry]:
    """Yield fixed launches that cannot serve as reference."""
    for kernel, case in all_cases(kernels):
        # A hand-written test may pass without any launch.
        if case.fixed.outcome != "qualified" and not case.passed:
            yield _entry(kernel, case, "", case.fixed.outcome, explanation(case.fixed))


def other_failures(kernels: Iterable[KernelRecord]) -> Iterator[Entry]:
    """Yield why cases fail, where neither the fixed launch nor a candidate tells."""
    for kernel, case in all_cases(kernels):
        for line in other_lines(case):
            yield _entry(kernel, case, "", "", clean(line, LONGEST_REASON))


Standing = Literal["failing", "within_tolerance", "recorded", "good"]


def candidates(kernels: Iterable[KernelRecord], standing: Standing) -> Iterator[Entry]:
    """Yield the candidates of one standing."""
    for kernel, case in all_cases(kernels):
        failures = set(case.failures)
        for record in case.candidates:
            if standing_of(kernel, case, record, failures) == standing:
                yield _entry(kernel, case, clean(record.id, LONGEST_NAME), record.outcome, explanation(record))


def standing_of(kernel: KernelRecord, case: CaseRecord, record: CandidateRecord, failures: Collection[str]) -> Standing:
    """Tell how a candidate stands in its case, whose failure lines are given."""
    # In a case that passed nothing fails: a hand-written test judges its candidates itself.
    if not case.passed and (candidate_fails(record, screen=kernel.screen) or failure_line(record) in failures):
        return "failing"
    if record.outcome == "within_tolerance":
        return "within_tolerance"
    return "good" if record.outcome == "qualified" and not falls_short(record) else "recorded"


def variant(kernels: Iterable[KernelRecord]) -> Iterator[Entry]:
    """Yield launches that pass and are not batch invariant."""
    for kernel, case in all_cases(kernels):
        records: list[FixedRecord | CandidateRecord] = [case.fixed, *case.candidates]
        for record in records:
            if record.batch_invariant is False and record.outcome in PASSING:
                name = clean(getattr(record, "id", "fixed launch"), LONGEST_NAME)
                yield _entry(kernel, case, name, "", clean(record.batch_note, LONGEST_REASON))


def failing_rows(kernels: Iterable[KernelRecord]) -> Iterator[Entry]:
    """Yield committed rows, and findings about their files, that fail."""
    for kernel in kernels:
        name = clean(kernel.kernel, LONGEST_NAME)
        for row in kernel.committed:
            if not row.passed:
                why = clean("; ".join(row.reasons), LONGEST_REASON)
                yield Entry(name, "", clean(row_name(row), LONGEST_NAME), row.verdict, why)


def warning_rows(kernels: Iterable[KernelRecord]) -> Iterator[Entry]:
    """Yield committed rows that do not fail, and are undecided or tell of other bytes of production."""
    for kernel in kernels:
        name = clean(kernel.kernel, LONGEST_NAME)
        for row in kernel.committed:
            if warned(row):
                why = clean("; ".join(row.reasons), LONGEST_REASON)
                yield Entry(name, "", clean(row_name(row), LONGEST_NAME), warned(row), why)


def all_cases(kernels: Iterable[KernelRecord]) -> Iterator[tuple[KernelRecord, CaseRecord]]:
    """Return every case with its kernel."""
    return ((kernel, case) for kernel in kernels for case in kernel.cases)


def _entry(kernel: KernelRecord, case: CaseRecord, name: str, outcome: str, why: str) -> Entry:
    return Entry(clean(kernel.kernel, LONGEST_NAME), clean(case.id, LONGEST_NAME), name, outcome, why)


def grouped(entries: Iterable[Entry], *, compact: bool = False) -> dict[str, list[list[Entry]]]:
    """Return by kernel the entries that say the same; when `compact`, those that differ in their reason only too."""
    groups: dict[str, dict[tuple[str, str], list[Entry]]] = {}
    for entry in entries:
        key = (entry.outcome, "" if compact else entry.why)
        groups.setdefault(entry.kernel, {}).setdefault(key, []).append(entry)
    return {kernel: list(of_kernel.values()) for kernel, of_kernel in groups.items()}


def words(group: list[Entry]) -> tuple[str, str, str]:
    """Return of what a group tells, its outcome, and why."""
    kernel = group[0].kernel
    cases = list(dict.fromkeys(entry.case for entry in group if entry.case))
    names = list(dict.fromkeys(entry.name for entry in group if entry.name))
    reasons = list(dict.fromkeys(entry.why for entry in group))
    why = reasons[0] + (f" (and {counted(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else "")
    where = f"{kernel}[{and_more(cases)}]" if cases else kernel
    return f"{where} {and_more(names)}" if names else where, group[0].outcome, why


def explanation(record: CandidateRecord | FixedRecord) -> str:
    """Return why a launch did not qualify as one clean line: a mismatch by its size, all else by its reason."""
    weak = isinstance(record, CandidateRecord) and falls_short(record)
    by_size = (record.outcome in ("mismatch", "within_tolerance") and not weak) or not record.reason
    found = _mismatches(record.detail) if by_size else []
    if not found:
        return clean(record.reason, LONGEST_REASON)
    text = _mismatch(found[0])
    if len(found) > 1:
        text += f"; also in {counted(len(found) - 1, 'more output')}"
    text += _inputs(record.detail)
    return clean(text, LONGEST_REASON)


def other_lines(case: CaseRecord) -> list[str]:
    """Return why a case failed, where neither the fixed launch nor a candidate tells."""
    if case.passed:
        return []
    silent = not case.failures and case.fixed.outcome == "qualified"
    return ["failed without a reason"] if silent else unexplained(case)


def unexplained(case: CaseRecord) -> list[str]:
    """Return the failure lines that tell neither of the fixed launch nor of one candidate."""
    told = {failure_line(record) for record in case.candidates}
    fixed = f"fixed launch: {case.fixed.outcome}"
    return [line for line in case.failures if line not in told and not line.startswith(fixed)]


def failure_line(record: CandidateRecord) -> str:
    """Return the line by which a case names a failing candidate."""
    return f"{record.id}: {record.outcome}: {record.reason}"


def _mismatches(detail: dict[str, Any]) -> list[Mismatch]:
    try:
        return msgspec.convert(detail.get("mismatches") or [], list[Mismatch])
    except (msgspec.ValidationError, UnicodeError):  # facts are free in form: the reason in words remains
        return []


def _mismatch(found: Mismatch) -> str:
    if found.note:
        text = found.note
    else:
        text = f"{found.differing} of {counted(found.elements, 'element')} differ"
        if found.first_index is not None:
            text += f", first at ({', '.join(map(str, found.first_index))})"
        if found.expected is not None and found.actual is not None:
            text += f": expected {found.expected} got {found.actual}"
        text += "".join(f", {part}" for part in _sizes(found))
        text += f" ({found.diagnosis.replace('_', ' ')})"
    return text if found.output == "return" else f"{found.output}: {text}"


def _inputs(detail: dict[str, Any]) -> str:
    """Return on which inputs something was seen; empty where it was on normal ones."""
    input_set = str(detail.get("input_set", NORMAL))
    return "" if input_set.startswith(NORMAL) else f" (inputs: {input_set})"


def _sizes(found: Mismatch) -> Iterator[str]:
    if found.max_ulp:
        yield f"max {found.max_ulp} ULP"
    if found.diagnosis == "structural" and found.max_absolute:
        yield f"max difference {found.max_absolute:.3g}"
    if found.nonfinite_actual != found.nonfinite_expected:
        yield f"{found.nonfinite_actual} NaN or infinite instead of {found.nonfinite_expected}"
    if found.beyond_tolerance:
        yield f"{found.beyond_tolerance} beyond the tolerance"
