"""Reports and what changed between them as Markdown, for a step summary or the comment on a pull request.

Text of a report stands in code spans and fenced blocks alone, where no name, message or link in it means anything.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.record import CommittedRecord, Document
from pytest_kernelqual.report.change import Diff
from pytest_kernelqual.report.changes_text import Line, lines_by_kind, title, toolchain, verdict
from pytest_kernelqual.report.document import failing
from pytest_kernelqual.report.entries import (
    LONGEST_REASON,
    Entry,
    candidates,
    failing_rows,
    fixed_failures,
    grouped,
    other_failures,
    other_reasons,
    problems,
    session_failures,
    warning_rows,
    words,
)
from pytest_kernelqual.report.named import Named
from pytest_kernelqual.report.phrases import clean, counted
from pytest_kernelqual.report.rows import undecided, warnings_told
from pytest_kernelqual.report.whole import whole_text

MARKER = "<!-- kernelqual: report -->"
"""Last line of every text, by which a comment that is to be replaced is found."""

COMMENT_CHARACTERS = 65_536
"""GitHub takes no longer comment."""
SUMMARY_CHARACTERS = 1 << 20
"""And no longer summary of a step; all text is ASCII, so that bytes are as many."""

_FIRST_LINES = 10
_BACKTICKS = re.compile("`+")


class _Block(NamedTuple):
    """Lines that belong together, of which some may be left out."""

    head: list[str]
    lines: list[str]
    tail: list[str]


def report_markdown(reports: Sequence[Named], limit: int = COMMENT_CHARACTERS) -> str:
    """Return the verdict, then what fails or warns, then the whole summary of each report, collapsed.

    Raises:
        DocumentError: Not even the verdicts fit into `limit` characters.
    """
    if len(reports) == 1:
        document = reports[0].document
        return _fitted([_Block([_said(document)], [], []), *_findings(document), *_details(document)], limit)
    bad = sum(failing(report.document) for report in reports)
    blocks = [
        _Block([f"**kernelqual: {bad or 'none'} of {len(reports)} reports fail{'s' if bad == 1 else ''}**"], [], [])
    ]
    for report in reports:
        blocks.append(_Block(["", f"### {code(report.name)}", "", _said(report.document)], [], []))
        blocks += [*_findings(report.document), *_details(report.document)]
    return _fitted(blocks, limit)


def diff_markdown(diff: Diff, head: Document | None = None, limit: int = COMMENT_CHARACTERS) -> str:
    """Return the verdict, then what changed, gravest first, then the whole summary of `head`, collapsed.

    Raises:
        DocumentError: Not even the verdicts fit into `limit` characters.
    """
    told = [f"**kernelqual: {verdict(diff)}**"]
    if head is not None:
        told += ["", _said(head)]
    if diff.environment:
        told += ["", f"device and toolchain: {code(toolchain(diff))}"]
    for note in diff.notes:
        told += ["", code(clean(note, LONGEST_REASON))]
    blocks = [_Block(told, [], [])]
    blocks += [_list(title(diff, kind), map(_changed, lines)) for kind, lines in lines_by_kind(diff).items()]
    return _fitted([*blocks, *(_details(head) if head is not None else [])], limit)


def code(text: str) -> str:
    """Return clean text as a code span, whatever is in it; nothing for nothing."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence, room = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{room}{text}{room}{fence}" if text else ""


def _fitted(blocks: Sequence[_Block], limit: int) -> str:
    """Return the blocks with as many lines as fit: first some of each block, then those of the first blocks."""
    end = "\n\n*{} left out to stay under {:,} characters; the JSON report holds everything.*"
    needed = [line for block in blocks for line in (*block.head, *block.tail)]
    room = limit - sum(len(line) + 1 for line in needed) - len(end) - len(MARKER) - 60
    # A block that is cut says so in a line of its own.
    room -= sum(len(_more(len(block.lines))) + 1 for block in blocks if block.lines)
    if room < 0:
        raise DocumentError(f"{limit} characters are too few for the verdicts of these reports; allow {limit - room}")
    shown = [0] * len(blocks)
    for most in (_FIRST_LINES, max((len(block.lines) for block in blocks), default=0)):
        for number, block in enumerate(blocks):
            for line in block.lines[shown[number] : most]:
                if len(line) + 1 > room:
                    break
                room -= len(line) + 1
                shown[number] += 1
    text: list[str] = []
    for number, block in zip(shown, blocks, strict=True):
        left_out = len(block.lines) - number
        text += [*block.head, *block.lines[:number], *([_more(left_out)] if left_out else []), *block.tail]
    dropped = sum(len(block.lines) for block in blocks) - sum(shown)
    told = end.format(counted(dropped, "line was", "lines were"), limit) if dropped else ""
    return "\n".join(text) + f"{told}\n\n{MARKER}\n"


def _more(number: int) -> str:
    return f"- {counted(number, 'more line')}"


def _list(heading: str, lines: Iterable[str]) -> _Block:
    return _Block(["", f"**{heading}**", ""], [f"- {line}" for line in lines], [])


def _said(document: Document) -> str:
    """Return the verdict of a report: what fails of how much, on which device, and whether it is complete."""
    cases = [case for kernel in document.kernels for case in kernel.cases]
    rows = [row for kernel in document.kernels for row in kernel.committed]
    broken = sum(bool(kernel.problem) for kernel in document.kernels)
    bad = [
        *(["the session as a whole"] if document.session_problems else []),
        *(["no case and no committed config"] if not (cases or rows or broken) else []),
        *([f"nothing ran of {counted(broken, 'kernel')}"] if broken else []),
        *_part(sum(not case.passed for case in cases), len(cases), "case"),
        *_part(sum(not row.passed for row in rows), len(rows), "committed config"),
    ]
    compared = f"{counted(document.controls.compared, 'candidate run')} compared"
    if failing(document):
        # Of how many rows they are is told already where one fails.
        whole = any(map(undecided, rows)) and all(row.passed for row in rows)
        told = f"**kernelqual: failing**: {', '.join([*bad, *(_passed(rows) if whole else warnings_told(rows))])}"
    else:
        held = [counted(len(cases), "case"), compared, *_passed(rows)]
        told = f"**kernelqual: passed**: {', '.join(held)}"
    why = code(clean("; ".join(other_reasons(document)), LONGEST_REASON))
    incomplete = "" if document.complete else f"; INCOMPLETE {why}".rstrip()
    return f"{told}; {_device(document)}{incomplete}"


def _passed(rows: Sequence[CommittedRecord]) -> list[str]:
    """Return how many rows passed, and what warns apart from them."""
    warnings = warnings_told(rows)
    good = sum(row.passed and not undecided(row) for row in rows)
    all_ = counted(len(rows), "committed config")
    return [all_ if good == len(rows) else f"{good} of {all_} passed", *warnings] if rows else []


def _part(bad: int, all_: int, what: str) -> list[str]:
    return [f"{bad} of {counted(all_, what)} fail{'s' if bad == 1 else ''}"] if bad else []


def _device(document: Document) -> str:
    if document.environment is None:
        return "no device answered"
    device = document.environment.device
    if device.kind == "interpreter":
        return "Triton interpreter: semantics only, no GPU ran these kernels"
    return f"on {code(clean(device.name, LONGEST_REASON))}"


def _findings(document: Document) -> Iterator[_Block]:
    kernels = document.kernels
    for heading, entries in (
        ("what fails the session", session_failures(document)),
        ("kernels of which nothing ran", problems(kernels)),
        ("fixed launches that cannot serve as reference", fixed_failures(kernels)),
        ("cases that fail for another reason", other_failures(kernels)),
        ("failing candidates", candidates(kernels, "failing")),
        ("committed configs that fail", failing_rows(kernels)),
        ("warnings of committed configs", warning_rows(kernels)),
    ):
        found = list(entries)
        if found:
            counts = Counter(entry.outcome for entry in found if entry.outcome)
            told = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
            yield _list(f"{heading} ({len(found)}{': ' if told else ''}{told})", _entries(found))


def _entries(entries: Iterable[Entry]) -> Iterator[str]:
    for of_kernel in grouped(entries).values():
        for group in of_kernel:
            where, outcome, why = words(group)
            yield ": ".join(part for part in (code(where), outcome, code(why)) if part)


def _changed(line: Line) -> str:
    where = code(" ".join(part for part in (line.where, line.what) if part))
    return ": ".join(part for part in (where, code(line.moved), code(line.why)) if part)


def _details(document: Document) -> list[_Block]:
    """Return the summary as the terminal shows it, collapsed."""
    lines = whole_text(document).split("\n")
    fence = "`" * max(3, max((len(run) + 1 for line in lines for run in _BACKTICKS.findall(line)), default=0))
    heading = "the whole report"
    return [
        _Block(["", "<details>", f"<summary>{heading}</summary>", "", fence + "text"], lines, [fence, "", "</details>"])
    ]
