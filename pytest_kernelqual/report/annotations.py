"""What fails, on the lines of the specs and committed files, for a code host to show there."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

from pytest_kernelqual.model.record import CommittedRecord, Document, KernelRecord
from pytest_kernelqual.model.values import encodable
from pytest_kernelqual.report.document import failing
from pytest_kernelqual.report.entries import (
    SESSION_NODEID,
    Entry,
    candidates,
    fixed_failures,
    grouped,
    other_failures,
    problems,
    words,
)
from pytest_kernelqual.report.named import Named
from pytest_kernelqual.report.phrases import clean, counted
from pytest_kernelqual.report.rows import row_name, warned

Level = Literal["error", "warning"]

_LONGEST_MESSAGE = 1000
_LINES_OF_A_MESSAGE = 8
_REPORT = "qualified-configurations.json"
_NOTHING = "kernelqual: no case and no committed config"


class Annotation(NamedTuple):
    """What is told on a line of a file."""

    level: Level
    path: str
    line: int
    title: str
    lines: list[str]
    """Clean text."""


def annotations(document: Document) -> Iterator[Annotation]:
    """Yield one annotation for each spec that fails, and for each committed config that fails or is undecided.

    A session that fails as a whole, and a report that fails since it holds nothing, have one on the report's own file.

    A code host shows only so many, so that errors come before warnings.
    """
    found = [*_of_session(document)]
    found += [one for kernel in document.kernels for one in (*_of_spec(kernel), *_of_rows(kernel))]
    if failing(document) and not found:
        why = [clean(reason, _LONGEST_MESSAGE) for reason in document.incomplete_because]
        found = [Annotation("error", _REPORT, 1, _NOTHING, why or [_NOTHING])]
    for level in ("error", "warning"):
        yield from (one for one in found if one.level == level)


def github(reports: Sequence[Named], prefix: str = "") -> str:
    """Return workflow commands, one line each, and nothing where nothing is to be told."""
    return "".join(_command(one, prefix) for report in reports for one in annotations(report.document))


def gitlab(reports: Sequence[Named], prefix: str = "") -> str:
    """Return a code-quality report, which GitLab takes as `artifacts:reports:codequality`."""
    issues = [_issue(one, prefix) for report in reports for one in annotations(report.document)]
    seen: Counter[object] = Counter()
    for issue in issues:
        name = issue["fingerprint"]
        if seen[name]:  # on another device, say: GitLab shows one of those with the same fingerprint
            issue["fingerprint"] = sha256(f"{name} {seen[name]}".encode()).hexdigest()
        seen[name] += 1
    return json.dumps(issues, indent=2) + "\n"


def _of_session(document: Document) -> Iterator[Annotation]:
    problems = document.session_problems
    if problems:
        title = f"{SESSION_NODEID}: {counted(len(problems), 'problem')} of the run as a whole"
        yield Annotation("error", _REPORT, 1, title, [clean(one, _LONGEST_MESSAGE) for one in problems])


def _of_spec(kernel: KernelRecord) -> Iterator[Annotation]:
    only = [kernel]
    entries: list[Entry] = [
        *problems(only),
        *fixed_failures(only),
        *other_failures(only),
        *candidates(only, "failing"),
    ]
    if entries:
        failing = sum(not case.passed for case in kernel.cases)
        told = (
            f"{failing} of {counted(len(kernel.cases), 'case')} fail{'s' if failing == 1 else ''}"
            if failing
            else "nothing ran"
        )
        lines = [_said(group) for of_kernel in grouped(entries).values() for group in of_kernel]
        path = kernel.nodeid.partition("::")[0]
        yield Annotation("error", path, kernel.line, clean(f"{kernel.kernel}: {told}", _LONGEST_MESSAGE), lines)


def _of_rows(kernel: KernelRecord) -> Iterator[Annotation]:
    for row in kernel.committed:
        if not row.passed:
            yield _of_row("error", kernel, row)
        elif warned(row):
            yield _of_row("warning", kernel, row)


def _of_row(level: Level, kernel: KernelRecord, row: CommittedRecord) -> Annotation:
    title = clean(f"{kernel.kernel} {row_name(row)}: {row.verdict}", _LONGEST_MESSAGE)
    lines = [clean(reason, _LONGEST_MESSAGE) for reason in row.reasons] or [row.verdict]
    # Without a file it is the spec of which a row is missing.
    path, line = (row.file, row.line) if row.file else (kernel.nodeid.partition("::")[0], kernel.line)
    return Annotation(level, path, line, title, lines)


def _said(group: list[Entry]) -> str:
    return ": ".join(part for part in words(group) if part)


def _message(lines: Iterable[str]) -> str:
    told = [*lines]
    hidden = len(told) - _LINES_OF_A_MESSAGE
    return "\n".join([*told[:_LINES_OF_A_MESSAGE], *([f"and {hidden} more"] if hidden > 0 else [])])


def _place(one: Annotation, prefix: str) -> str:
    return encodable(f"{prefix.rstrip('/')}/{one.path}" if prefix else one.path)


def _command(one: Annotation, prefix: str) -> str:
    where = f"file={_property(_place(one, prefix))},line={max(one.line, 1)},title={_property(one.title)}"
    return f"::{one.level} {where}::{_data(_message(one.lines))}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _issue(one: Annotation, prefix: str) -> dict[str, object]:
    path = _place(one, prefix)
    return {
        "description": f"{one.title}\n{_message(one.lines)}",
        "check_name": "kernelqual",
        # The same from run to run, however lines move.
        "fingerprint": sha256(f"{path}\n{one.title}".encode()).hexdigest(),
        "severity": "major" if one.level == "error" else "minor",
        "location": {"path": path, "lines": {"begin": max(one.line, 1)}},
    }
