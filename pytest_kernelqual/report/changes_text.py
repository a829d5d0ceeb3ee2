"""What changed between two reports as plain ASCII text, and the lines of which every form is made."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pytest_kernelqual.report.change import KINDS, TITLES, Change, ChangeKind, Diff
from pytest_kernelqual.report.drift_text import told
from pytest_kernelqual.report.entries import LONGEST_NAME, LONGEST_REASON
from pytest_kernelqual.report.phrases import and_more, clean, counted

_LINES_OF_A_SECTION = 40
_SAID = {"production_bytes": "with other production bytes", "retuned": "re-tuned", "fixed_launch": "other fixed launch"}
_NOUNS = ("kernel", "case", "row", "candidate", "outcome", "verdict", "launch", "session", "gate")


class Line(NamedTuple):
    """Equal changes of one kernel, in clean words."""

    where: str
    """Kernel, and cases."""
    what: str
    """Candidates or rows."""
    moved: str
    """`before -> after`"""
    why: str


def verdict(diff: Diff) -> str:
    """Return in one line whether HEAD is worse, and what changed how often."""
    if not diff.counts:
        return "nothing changed"
    bad = {kind: diff.counts[kind] for kind in KINDS if kind in diff.counts and kind in diff.fail_on}
    rest = {kind: diff.counts[kind] for kind in KINDS if kind in diff.counts and kind not in diff.fail_on}
    if not bad:
        return f"not worse: {_counts(rest)}"
    return f"worse: {_counts(bad)}{'; also ' if rest else ''}{_counts(rest)}"


def toolchain(diff: Diff) -> str:
    """Return what differs of device, versions and effort, in one line."""
    return clean(told(diff.environment), LONGEST_REASON)


def lines_by_kind(diff: Diff) -> dict[ChangeKind, list[Line]]:
    """Return all changes, gravest first; those that say the same of one kernel stand in one line."""
    groups: dict[ChangeKind, dict[tuple[str, ...], list[Change]]] = {}
    for change in diff.changes:
        # What is of no case, candidate or row says the same by its reason alone.
        whole = change.why if not (change.case or change.what) else ""
        key = (change.nodeid, change.before, change.after, whole)
        groups.setdefault(change.kind, {}).setdefault(key, []).append(change)
    return {kind: [_line(group) for group in of_kind.values()] for kind, of_kind in groups.items()}


def title(diff: Diff, kind: ChangeKind) -> str:
    """Return the title of a kind with the number of its changes."""
    return f"{TITLES[kind]} ({diff.counts[kind]})"


def changes_text(diff: Diff) -> str:
    """Return the verdict, what the comparison rests on, and a section for each kind of change, gravest first."""
    head = [clean(verdict(diff), LONGEST_REASON)]
    if diff.environment:
        head.append(f"device and toolchain: {toolchain(diff)}")
    head += [clean(note, LONGEST_REASON) for note in diff.notes]
    sections = [_section(title(diff, kind), lines) for kind, lines in lines_by_kind(diff).items()]
    return "\n\n".join(["\n".join(head), *sections])


def _section(heading: str, lines: Iterable[Line]) -> str:
    shown = [f"  {clean(_one_line(line), LONGEST_REASON)}" for line in lines]
    hidden = len(shown) - _LINES_OF_A_SECTION
    more = [f"  and {counted(hidden, 'more line')}; --format json lists everything"] if hidden > 0 else []
    return "\n".join([heading, *shown[:_LINES_OF_A_SECTION], *more])


def _one_line(line: Line) -> str:
    head = " ".join(part for part in (line.where, line.what) if part)
    return ": ".join(part for part in (head, line.moved, line.why) if part)


def _line(group: list[Change]) -> Line:
    first = group[0]
    kernel = clean(first.kernel, LONGEST_NAME)
    cases = [clean(name, LONGEST_NAME) for name in dict.fromkeys(change.case for change in group) if name]
    names = [clean(name, LONGEST_NAME) for name in dict.fromkeys(change.what for change in group) if name]
    reasons = [*dict.fromkeys(change.why for change in group)]
    why = reasons[0] + (f" (and {counted(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else "")
    return Line(
        where=f"{kernel}[{and_more(cases)}]" if cases else kernel,
        what=and_more(names),
        moved=_moved(clean(first.before, LONGEST_NAME), clean(first.after, LONGEST_NAME)),
        why=clean(why, LONGEST_REASON),
    )


def _moved(before: str, after: str) -> str:
    if before and after:
        return f"{before} -> {after}"
    return f"was {before}" if before else after


def _counts(counts: Mapping[ChangeKind, int]) -> str:
    return ", ".join(f"{number} {_words(kind, number)}" for kind, number in counts.items())


def _words(kind: ChangeKind, number: int) -> str:
    words = _SAID.get(kind, kind.replace("_", " "))
    return f"{words}{'es' if words.endswith('launch') else 's'}" if number > 1 and words.endswith(_NOUNS) else words
