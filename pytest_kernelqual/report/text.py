"""Plain ASCII text for terminals: the summary of a document and the failure message of one item."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, Literal, NamedTuple

import msgspec
from tabulate import tabulate

from pytest_kernelqual.judge.evidence import falls_short
from pytest_kernelqual.judge.verdict import candidate_fails
from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES, PASSING
from pytest_kernelqual.model.profiles import NORMAL
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    Document,
    Environment,
    FixedRecord,
    KernelRecord,
    Mismatch,
)
from pytest_kernelqual.report.findings import dead_axes, fragile
from pytest_kernelqual.report.phrases import and_more, clean, counted

NARROWEST = 60
"""Text is never fitted into fewer columns."""

_LONGEST_NAME = 60
_LONGEST_REASON = 300
_NARROWEST_COLUMN = 20
_GAP = 4
_GROUPS_OF_A_KERNEL = 8
_GROUPS_OF_A_SECTION = 60
_LINES_OF_A_FAILURE = 12


def summary(document: Document, *, width: int = 100) -> str:
    """Return the terminal summary of a run, `width` columns wide, without a final newline.

    What stops a kernel from being judged comes first, then failing candidates, then those that are only recorded.
    """
    width = max(width, NARROWEST)
    kernels = document.kernels
    sections = [
        _header(document, width),
        _table(kernels, width),
        _section("declaration problems", _problems(kernels), width),
        _section("fixed launches that cannot serve as reference", _fixed_failures(kernels), width),
        _section("cases that fail for another reason", _other_failures(kernels), width),
        _section("failing candidates", _candidates(kernels, "failing"), width),
        _section(
            "other bytes, within the spec's tolerance", _candidates(kernels, "within_tolerance"), width, compact=True
        ),
        _section("not batch invariant", _variant(kernels), width),
        _section("recorded, not failing", _candidates(kernels, "recorded"), width, compact=True),
        dead_axes(kernels, width),
        fragile(kernels, width),
    ]
    return "\n\n".join(section for section in sections if section)


def candidate_line(record: CandidateRecord) -> str:
    """Return `id: outcome: why` of one candidate as one line."""
    return _joined(clean(record.id, _LONGEST_NAME), record.outcome, explanation(record))


def failure_text(case: CaseRecord) -> str:
    """Return why the item of a case failed, most telling line first; empty where it passed."""
    groups: dict[tuple[str, str], list[str]] = {}
    for record in case.candidates:
        if _failure_line(record) in case.failures:
            groups.setdefault((record.outcome, explanation(record)), []).append(clean(record.id, _LONGEST_NAME))
    failing = sum(map(len, groups.values()))
    lines = []
    if case.fixed.outcome != "qualified":
        lines.append(_joined("fixed launch", case.fixed.outcome, explanation(case.fixed)))
    lines += [clean(line, _LONGEST_REASON) for line in _unexplained(case)]
    if failing:
        lines.append(f"{failing} of {counted(len(case.candidates), 'candidate')} failed:")
        lines += [f"  {_joined(and_more(ids), *why)}" for why, ids in groups.items()]
    hidden = len(lines) - _LINES_OF_A_FAILURE
    if hidden > 0:
        lines = [*lines[:_LINES_OF_A_FAILURE], f"  and {hidden} more; the JSON report holds them all"]
    return "\n".join(lines)


def explanation(record: CandidateRecord | FixedRecord) -> str:
    """Return why a launch did not qualify as one clean line: a mismatch by its size, all else by its reason."""
    weak = isinstance(record, CandidateRecord) and falls_short(record)
    by_size = (record.outcome in ("mismatch", "within_tolerance") and not weak) or not record.reason
    found = _mismatches(record.detail) if by_size else []
    if not found:
        return clean(record.reason, _LONGEST_REASON)
    text = _mismatch(found[0])
    if len(found) > 1:
        text += f"; also in {counted(len(found) - 1, 'more output')}"
    text += _inputs(record.detail)
    return clean(text, _LONGEST_REASON)


# Header and table.


def _header(document: Document, width: int) -> str:
    controls = document.controls
    reasons = document.incomplete_because
    compared = counted(controls.compared, "candidate run")
    lines = [
        *_environment(document.environment),
        f"compared: {compared} of {counted(controls.pairs, 'kernel and config pair')}",
        *_evidence(document),
        "report: complete" if document.complete else "report: INCOMPLETE",
        *(f"  {clean(reason, width - 2)}" for reason in reasons[:_GROUPS_OF_A_KERNEL]),
    ]
    if len(reasons) > _GROUPS_OF_A_KERNEL:
        lines.append(f"  and {counted(len(reasons) - _GROUPS_OF_A_KERNEL, 'more reason')}")
    lines = [line if line.startswith("  ") else clean(line, width) for line in lines]
    # Never cut: it is what two machines compare.
    return "\n".join([*lines, f"digest: {clean(document.digest, _LONGEST_REASON)}"])


def _evidence(document: Document) -> list[str]:
    counts = document.controls.evidence
    told = ", ".join(f"{counts[grade]} {grade}" for grade in reversed(EVIDENCE) if counts.get(grade))
    records = [record for _, case in _cases(document.kernels) for record in case.candidates]
    beyond = sorted({record.lacks for record in records if record.lacks and not falls_short(record)})
    if beyond:
        told += f" ({' and '.join(beyond)} is required, which the interpreter cannot show)"
    return [f"evidence: {told}"] if told else []


def _environment(environment: Environment | None) -> list[str]:
    if environment is None:
        return ["device: none answered; nothing ran"]
    device = environment.device
    if device.kind == "interpreter":
        told = "Triton interpreter (semantics only: no GPU ran these kernels)"
    else:
        units = [counted(device.compute_units, "compute unit")] if device.compute_units else []
        told = f"{device.name} ({', '.join([device.kind, device.architecture, *units])})"
    versions = [
        f"{name} {version}"
        for name in ("torch", "triton", "python", "kernelqual", "driver", "runtime")
        if (version := getattr(environment, name))
    ]
    sets = counted(environment.seeds, "input set")
    profiles = ", ".join(environment.profiles)
    launches = counted(environment.repeats, "launch", "launches")
    return [
        f"device: {told}",
        f"versions: {', '.join(versions) or 'unknown'}",
        f"inputs: seed {environment.seed}, {sets} a case, {launches} of a candidate on each",
        *([f"profiles: one more input set each of {profiles}"] if profiles else []),
        *([f"provocation: {environment.provocation}"] if environment.provocation else []),
    ]


def _table(kernels: Sequence[KernelRecord], width: int) -> str:
    # What stands for a committed file alone has a line of its own elsewhere.
    shown = [kernel for kernel in kernels if kernel.cases or not kernel.committed]
    if not shown:
        return "no kernels"
    rows = [(_kernel_name(kernel), _counts(kernel)) for kernel in shown]
    total: Counter[str] = sum((counts for _, counts in rows), Counter())
    if len(rows) > 1:
        rows.append((f"all {len(rows)}", total))
    others = [outcome for outcome in OUTCOMES if total[outcome] and outcome != "qualified"]
    columns = ["kernel", "cases", "candidates", "qualified"]
    cells = [[name, *(str(counts[column]) for column in columns[1:])] for name, counts in rows]
    by_column = [
        [*cell, *(str(counts[outcome] or "") for outcome in others)]
        for cell, (_, counts) in zip(cells, rows, strict=True)
    ]
    table = _tabulated([*columns, *others], by_column)
    if max(map(len, table.splitlines())) <= width:
        return table
    told = [", ".join(f"{counts[outcome]} {outcome}" for outcome in others if counts[outcome]) for _, counts in rows]
    narrow = len(_tabulated(columns, cells).splitlines()[0])
    room = max(width - narrow - _GAP, _NARROWEST_COLUMN)
    return _tabulated(
        [*columns, "other outcomes"],
        [[*cell, "\n".join(wrap(text, room))] for cell, text in zip(cells, told, strict=True)],
    )


def _tabulated(headers: list[str], rows: list[list[str]]) -> str:
    align = ["right" if header in {"cases", "candidates", "qualified", *OUTCOMES} else "left" for header in headers]
    return tabulate(rows, headers, tablefmt="simple", disable_numparse=True, colalign=align)


def _counts(kernel: KernelRecord) -> Counter[str]:
    """Count cases, candidates of all cases, and candidates by outcome."""
    counts = Counter({"cases": len(kernel.cases)})
    for case in kernel.cases:
        counts["candidates"] += len(case.candidates)
        counts.update(record.outcome for record in case.candidates)
    return counts


def _kernel_name(kernel: KernelRecord) -> str:
    name = clean(kernel.kernel, _LONGEST_NAME)
    return name if kernel.screen is None else f"{name} (screened)"


# Sections: groups of entries that share kernel, outcome and reason.


class _Entry(NamedTuple):
    kernel: str
    case: str
    name: str
    outcome: str
    why: str


def _problems(kernels: Iterable[KernelRecord]) -> Iterator[_Entry]:
    for kernel in kernels:
        told = [line for line in kernel.problem.splitlines() if line.strip()]
        if told:  # of a traceback, the first line says what was done and the last what went wrong
            why = told[0] if len(told) == 1 else f"{told[0].strip()} ... {told[-1].strip()}"
            yield _Entry(clean(kernel.kernel, _LONGEST_NAME), "", "", "", clean(why, _LONGEST_REASON))


def _fixed_failures(kernels: Iterable[KernelRecord]) -> Iterator[_Entry]:
    for kernel, case in _cases(kernels):
        # A hand-written test may pass without any launch.
        if case.fixed.outcome != "qualified" and not case.passed:
            yield _entry(kernel, case, "", case.fixed.outcome, explanation(case.fixed))


def _other_failures(kernels: Iterable[KernelRecord]) -> Iterator[_Entry]:
    for kernel, case in _cases(kernels):
        lines = _unexplained(case)
        if not lines and not case.passed and not case.failures and case.fixed.outcome == "qualified":
            lines = ["failed without a reason"]
        for line in lines:
            yield _entry(kernel, case, "", "", clean(line, _LONGEST_REASON))


_Standing = Literal["failing", "within_tolerance", "recorded", "good"]


def _candidates(kernels: Iterable[KernelRecord], standing: _Standing) -> Iterator[_Entry]:
    for kernel, case in _cases(kernels):
        failures = set(case.failures)
        for record in case.candidates:
            if _standing(kernel, case, record, failures) == standing:
                yield _entry(kernel, case, clean(record.id, _LONGEST_NAME), record.outcome, explanation(record))


def _standing(kernel: KernelRecord, case: CaseRecord, record: CandidateRecord, failures: Collection[str]) -> _Standing:
    # In a case that passed nothing fails: a hand-written test judges its candidates itself.
    if not case.passed and (candidate_fails(record, screen=kernel.screen) or _failure_line(record) in failures):
        return "failing"
    if record.outcome == "within_tolerance":
        return "within_tolerance"
    return "good" if record.outcome == "qualified" and not falls_short(record) else "recorded"


def _variant(kernels: Iterable[KernelRecord]) -> Iterator[_Entry]:
    for kernel, case in _cases(kernels):
        records: list[FixedRecord | CandidateRecord] = [case.fixed, *case.candidates]
        for record in records:
            if record.batch_invariant is False and record.outcome in PASSING:
                name = clean(getattr(record, "id", "fixed launch"), _LONGEST_NAME)
                yield _entry(kernel, case, name, "", clean(record.batch_note, _LONGEST_REASON))


def _cases(kernels: Iterable[KernelRecord]) -> Iterator[tuple[KernelRecord, CaseRecord]]:
    return ((kernel, case) for kernel in kernels for case in kernel.cases)


def _entry(kernel: KernelRecord, case: CaseRecord, name: str, outcome: str, why: str) -> _Entry:
    return _Entry(clean(kernel.kernel, _LONGEST_NAME), clean(case.id, _LONGEST_NAME), name, outcome, why)


def _section(title: str, entries: Iterable[_Entry], width: int, *, compact: bool = False) -> str:
    """Return a titled list of entries, empty where there are none.

    Equal entries of a kernel stand together; when `compact`, so do those that differ in their reason only.
    """
    groups: dict[str, dict[tuple[str, str], list[_Entry]]] = {}
    for entry in entries:
        key = (entry.outcome, "" if compact else entry.why)
        groups.setdefault(entry.kernel, {}).setdefault(key, []).append(entry)
    if not groups:
        return ""
    lines = []
    hidden: dict[str, int] = {}
    # Every kernel gets a line, and none fills the screen.
    share = max(1, min(_GROUPS_OF_A_KERNEL, _GROUPS_OF_A_SECTION // len(groups)))
    for kernel, of_kernel in groups.items():
        for number, group in enumerate(of_kernel.values()):
            if number < share:
                lines += _grouped(group, width)
            else:
                hidden[kernel] = hidden.get(kernel, 0) + len(group)
    if hidden:
        told = [f"{number} of {kernel}" for kernel, number in hidden.items()]
        lines.append(f"  {clean(f'and {sum(hidden.values())} more: {and_more(told, 3)}', width - 2)}")
    total = sum(len(group) for of_kernel in groups.values() for group in of_kernel.values())
    return "\n".join([f"{title} ({total})", *lines])


def _grouped(group: list[_Entry], width: int) -> list[str]:
    kernel, outcome = group[0].kernel, group[0].outcome
    cases = list(dict.fromkeys(entry.case for entry in group if entry.case))
    names = list(dict.fromkeys(entry.name for entry in group if entry.name))
    reasons = list(dict.fromkeys(entry.why for entry in group))
    why = reasons[0] + (f" (and {counted(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else "")
    where = f"{kernel}[{and_more(cases)}]" if cases else kernel
    head = f"{where} {and_more(names)}" if names else where
    one_line = f"  {_joined(head, outcome, why)}"
    if len(one_line) <= width:
        return [one_line]
    lines = [f"  {clean(_joined(head, outcome), width - 2)}"]
    # The reason is never lost for want of room: it goes on in a second line at most.
    room = width - 6
    if len(why) <= room:
        return [*lines, f"      {why}"]
    cut = why.rfind(" ", 0, room + 1)
    cut = cut if cut > 0 else room
    return [*lines, f"      {why[:cut]}", f"      {clean(why[cut:], room)}"]


# Words.


def _unexplained(case: CaseRecord) -> list[str]:
    """Return the failure lines that tell neither of the fixed launch nor of one candidate."""
    told = {_failure_line(record) for record in case.candidates}
    fixed = f"fixed launch: {case.fixed.outcome}"
    return [line for line in case.failures if line not in told and not line.startswith(fixed)]


def _failure_line(record: CandidateRecord) -> str:
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


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
