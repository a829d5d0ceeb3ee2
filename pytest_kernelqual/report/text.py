"""Plain ASCII text for terminals: the summary of a document and the failure message of one item."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from tabulate import tabulate

from pytest_kernelqual.judge.verdict import candidate_fails
from pytest_kernelqual.model.outcome import OUTCOMES
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    Document,
    Environment,
    FixedRecord,
    KernelRecord,
    Mismatch,
)

NARROWEST = 60
"""Text is never fitted into fewer columns."""

_LONGEST_NAME = 60
_LONGEST_REASON = 300
_GROUPS_OF_A_KERNEL = 8
_GROUPS_OF_A_SECTION = 60
_LINES_OF_A_FAILURE = 12

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_NOT_PRINTABLE = re.compile(r"[^ -~]+")


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
        _section("failing candidates", _candidates(kernels, failing=True), width),
        _section("recorded, not failing", _candidates(kernels, failing=False), width),
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
        lines.append(f"{failing} of {_count(len(case.candidates), 'candidate')} failed:")
        lines += [f"  {_joined(_and_more(ids), *why)}" for why, ids in groups.items()]
    hidden = len(lines) - _LINES_OF_A_FAILURE
    if hidden > 0:
        lines = [*lines[:_LINES_OF_A_FAILURE], f"  and {hidden} more; the JSON report holds them all"]
    return "\n".join(lines)


def explanation(record: CandidateRecord | FixedRecord) -> str:
    """Return why a launch did not qualify as one clean line: a mismatch by its size, all else by its reason."""
    found = _mismatches(record.detail) if record.outcome == "mismatch" or not record.reason else []
    if not found:
        return clean(record.reason, _LONGEST_REASON)
    text = _mismatch(found[0])
    if len(found) > 1:
        text += f"; also in {_count(len(found) - 1, 'more output')}"
    return clean(text, _LONGEST_REASON)


def clean(text: str, limit: int) -> str:
    """Return `text` as one line of at most `limit` printable ASCII characters."""
    if not (text.isascii() and text.isprintable()):
        text = _ANSI.sub("", text).encode("ascii", "backslashreplace").decode("ascii")
        text = _NOT_PRINTABLE.sub(" ", text)
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 3] + "..."


# Header and table.


def _header(document: Document, width: int) -> str:
    controls = document.controls
    lines = [
        *_environment(document.environment),
        f"compared: {_count(controls.compared, 'candidate run')} of {_count(controls.pairs, 'kernel and config pair')}",
        f"report: {'complete' if document.complete else 'INCOMPLETE'}, {document.digest}",
    ]
    lines = [clean(line, width) for line in lines]
    reasons = document.incomplete_because
    lines += [f"  {clean(reason, width - 2)}" for reason in reasons[:_GROUPS_OF_A_KERNEL]]
    if len(reasons) > _GROUPS_OF_A_KERNEL:
        lines.append(f"  and {_count(len(reasons) - _GROUPS_OF_A_KERNEL, 'more reason')}")
    return "\n".join(lines)


def _environment(environment: Environment | None) -> list[str]:
    if environment is None:
        return ["device: none answered; nothing ran"]
    device = environment.device
    if device.kind == "interpreter":
        told = "Triton interpreter (semantics only: no GPU ran these kernels)"
    else:
        units = [_count(device.compute_units, "compute unit")] if device.compute_units else []
        told = f"{device.name} ({', '.join([device.kind, device.architecture, *units])})"
    versions = [
        f"{name} {version}"
        for name in ("torch", "triton", "python", "kernelqual", "driver", "runtime")
        if (version := getattr(environment, name))
    ]
    sets = _count(environment.seeds, "input set")
    launches = _count(environment.repeats, "launch", "launches")
    return [
        f"device: {told}",
        f"versions: {', '.join(versions) or 'unknown'}",
        f"inputs: seed {environment.seed}, {sets} a case, {launches} of a candidate on each",
    ]


def _table(kernels: Sequence[KernelRecord], width: int) -> str:
    if not kernels:
        return "no kernels"
    counts = [_counts(kernel) for kernel in kernels]
    occurring = [outcome for outcome in OUTCOMES if outcome == "qualified" or any(row.get(outcome) for row in counts)]
    columns = ["cases", "candidates", *occurring]
    rows = [
        [_kernel_name(kernel), *(str(row.get(column, 0) or _ZERO.get(column, "")) for column in columns)]
        for kernel, row in zip(kernels, counts, strict=True)
    ]
    if len(kernels) > 1:
        totals = [sum(row.get(column, 0) for row in counts) for column in columns]
        rows.append([f"all {len(kernels)}", *map(str, totals)])
    table = _tabulated(["kernel", *columns], rows)
    if max(map(len, table.splitlines())) > width:
        table = _tabulated(["kernel", *(column.replace("_", "\n") for column in columns)], rows)
    return table


_ZERO = {"cases": "0", "candidates": "0", "qualified": "0"}


def _tabulated(headers: list[str], rows: list[list[str]]) -> str:
    return tabulate(
        rows, headers, tablefmt="simple", disable_numparse=True, colalign=("left", *("right" for _ in headers[1:]))
    )


def _counts(kernel: KernelRecord) -> dict[str, int]:
    counts = {"cases": len(kernel.cases), "candidates": 0}
    for case in kernel.cases:
        counts["candidates"] += len(case.candidates)
        for record in case.candidates:
            counts[record.outcome] = counts.get(record.outcome, 0) + 1
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
        if case.fixed.outcome != "qualified":
            yield _entry(kernel, case, "", case.fixed.outcome, explanation(case.fixed))


def _other_failures(kernels: Iterable[KernelRecord]) -> Iterator[_Entry]:
    for kernel, case in _cases(kernels):
        lines = _unexplained(case)
        if not lines and not case.passed and not case.failures and case.fixed.outcome == "qualified":
            lines = ["failed without a reason"]
        for line in lines:
            yield _entry(kernel, case, "", "", clean(line, _LONGEST_REASON))


def _candidates(kernels: Iterable[KernelRecord], *, failing: bool) -> Iterator[_Entry]:
    for kernel, case in _cases(kernels):
        failures = set(case.failures)
        for record in case.candidates:
            if record.outcome == "qualified":
                continue
            fails = candidate_fails(record, screen=kernel.screen) or _failure_line(record) in failures
            if fails is failing:
                yield _entry(kernel, case, clean(record.id, _LONGEST_NAME), record.outcome, explanation(record))


def _cases(kernels: Iterable[KernelRecord]) -> Iterator[tuple[KernelRecord, CaseRecord]]:
    return ((kernel, case) for kernel in kernels for case in kernel.cases)


def _entry(kernel: KernelRecord, case: CaseRecord, name: str, outcome: str, why: str) -> _Entry:
    return _Entry(clean(kernel.kernel, _LONGEST_NAME), clean(case.id, _LONGEST_NAME), name, outcome, why)


def _section(title: str, entries: Iterable[_Entry], width: int) -> str:
    """Return a titled list of entries, equal ones of a kernel together; empty where there are none."""
    groups: dict[tuple[str, str, str], list[_Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.kernel, entry.outcome, entry.why), []).append(entry)
    if not groups:
        return ""
    lines = [f"{title} ({sum(map(len, groups.values()))})"]
    shown: dict[str, int] = {}
    hidden: dict[str, int] = {}
    for (kernel, outcome, why), group in groups.items():
        if shown.get(kernel, 0) >= _GROUPS_OF_A_KERNEL or sum(shown.values()) >= _GROUPS_OF_A_SECTION:
            hidden[kernel] = hidden.get(kernel, 0) + len(group)
            continue
        shown[kernel] = shown.get(kernel, 0) + 1
        lines += _grouped(kernel, outcome, why, group, width)
    if hidden:
        told = [f"{number} of {kernel}" for kernel, number in hidden.items()]
        lines.append(f"  {clean(f'and {sum(hidden.values())} more: {_and_more(told, 3)}', width - 2)}")
    return "\n".join(lines)


def _grouped(kernel: str, outcome: str, why: str, group: list[_Entry], width: int) -> list[str]:
    cases = list(dict.fromkeys(entry.case for entry in group if entry.case))
    names = list(dict.fromkeys(entry.name for entry in group if entry.name))
    where = kernel + (f"[{cases[0]}]" if cases else "") + (f" and {len(cases) - 1} more" if len(cases) > 1 else "")
    head = f"{where} {_and_more(names)}" if names else where
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
        text = f"{found.differing} of {_count(found.elements, 'element')} differ"
        if found.first_index is not None:
            text += f", first at ({', '.join(map(str, found.first_index))})"
        if found.expected is not None and found.actual is not None:
            text += f": expected {found.expected} got {found.actual}"
        text += "".join(f", {part}" for part in _sizes(found))
        text += f" ({found.diagnosis.replace('_', ' ')})"
    return text if found.output == "return" else f"{found.output}: {text}"


def _sizes(found: Mismatch) -> Iterator[str]:
    if found.max_ulp:
        yield f"max {found.max_ulp} ULP"
    if found.diagnosis == "structural" and found.max_absolute:
        yield f"max difference {found.max_absolute:.3g}"
    if found.nonfinite_actual != found.nonfinite_expected:
        yield f"{found.nonfinite_actual} NaN or infinite instead of {found.nonfinite_expected}"


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)


def _and_more(names: Sequence[str], shown: int = 1) -> str:
    text = ", ".join(names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
