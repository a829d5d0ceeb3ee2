"""Plain ASCII text for terminals: the summary of a document and the failure message of one item."""

from collections import Counter
from collections.abc import Iterable, Sequence
from textwrap import wrap

from tabulate import tabulate

from pytest_kernelqual.judge.evidence import falls_short
from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, Document, Environment, KernelRecord
from pytest_kernelqual.report.entries import (
    LONGEST_NAME,
    LONGEST_REASON,
    Entry,
    all_cases,
    candidates,
    explanation,
    failure_line,
    fixed_failures,
    grouped,
    other_failures,
    other_reasons,
    problems,
    session_failures,
    unexplained,
    variant,
    words,
)
from pytest_kernelqual.report.findings import dead_axes, fragile, put_aside
from pytest_kernelqual.report.phrases import and_more, clean, counted

NARROWEST = 60
"""Text is never fitted into fewer columns."""

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
        _section("what fails the session", session_failures(document), width),
        _section("declaration problems", problems(kernels), width),
        _section("fixed launches that cannot serve as reference", fixed_failures(kernels), width),
        _section("cases that fail for another reason", other_failures(kernels), width),
        _section("failing candidates", candidates(kernels, "failing"), width),
        _section(
            "other bytes, within the spec's tolerance", candidates(kernels, "within_tolerance"), width, compact=True
        ),
        _section("not batch invariant", variant(kernels), width),
        _section("recorded, not failing", candidates(kernels, "recorded"), width, compact=True),
        put_aside(kernels, width),
        dead_axes(kernels, width),
        fragile(kernels, width),
    ]
    return "\n\n".join(section for section in sections if section)


def candidate_line(record: CandidateRecord) -> str:
    """Return `id: outcome: why` of one candidate as one line."""
    return _joined(clean(record.id, LONGEST_NAME), record.outcome, explanation(record))


def failure_text(case: CaseRecord) -> str:
    """Return why the item of a case failed, most telling line first; empty where it passed."""
    groups: dict[tuple[str, str], list[str]] = {}
    for record in case.candidates:
        if failure_line(record) in case.failures:
            groups.setdefault((record.outcome, explanation(record)), []).append(clean(record.id, LONGEST_NAME))
    failing = sum(map(len, groups.values()))
    lines = []
    if case.fixed.outcome != "qualified":
        lines.append(_joined("fixed launch", case.fixed.outcome, explanation(case.fixed)))
    lines += [clean(line, LONGEST_REASON) for line in unexplained(case)]
    if failing:
        lines.append(f"{failing} of {counted(len(case.candidates), 'candidate')} failed:")
        lines += [f"  {_joined(and_more(ids), *why)}" for why, ids in groups.items()]
    hidden = len(lines) - _LINES_OF_A_FAILURE
    if hidden > 0:
        lines = [*lines[:_LINES_OF_A_FAILURE], f"  and {hidden} more; the JSON report holds them all"]
    return "\n".join(lines)


# Header and table.


def _header(document: Document, width: int) -> str:
    controls = document.controls
    reasons = other_reasons(document)
    compared = counted(controls.compared, "candidate run")
    told = [
        *_environment(document.environment),
        f"compared: {compared} of {counted(controls.pairs, 'kernel and config pair')}",
        *_evidence(document),
        "report: complete" if document.complete else "report: INCOMPLETE",
    ]
    # Wrapped, not cut: the end of a line may be what matters, such as what the interpreter cannot show.
    lines = [part for line in told for part in wrap(clean(line, LONGEST_REASON), width, subsequent_indent="    ")]
    lines += [f"  {clean(reason, width - 2)}" for reason in reasons[:_GROUPS_OF_A_KERNEL]]
    if len(reasons) > _GROUPS_OF_A_KERNEL:
        lines.append(f"  and {counted(len(reasons) - _GROUPS_OF_A_KERNEL, 'more reason')}")
    # Never cut: it is what two machines compare.
    return "\n".join([*lines, f"digest: {clean(document.digest, LONGEST_REASON)}"])


def _evidence(document: Document) -> list[str]:
    counts = document.controls.evidence
    told = ", ".join(f"{counts[grade]} {grade}" for grade in reversed(EVIDENCE) if counts.get(grade))
    records = [record for _, case in all_cases(document.kernels) for record in case.candidates]
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
        *([f"disturbance checks: {environment.disturbance_checks}"] if environment.disturbance_checks else []),
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
    name = clean(kernel.kernel, LONGEST_NAME)
    return name if kernel.screen is None else f"{name} (screened)"


# Sections.


def _section(title: str, entries: Iterable[Entry], width: int, *, compact: bool = False) -> str:
    """Return a titled list of entries, empty where there are none.

    Equal entries of a kernel stand together; when `compact`, so do those that differ in their reason only.
    """
    groups = grouped(entries, compact=compact)
    if not groups:
        return ""
    lines = []
    hidden: dict[str, int] = {}
    # Every kernel gets a line, and none fills the screen.
    share = max(1, min(_GROUPS_OF_A_KERNEL, _GROUPS_OF_A_SECTION // len(groups)))
    for kernel, of_kernel in groups.items():
        for number, group in enumerate(of_kernel):
            if number < share:
                lines += _told(group, width)
            else:
                hidden[kernel] = hidden.get(kernel, 0) + len(group)
    if hidden:
        told = [f"{number} of {kernel}" for kernel, number in hidden.items()]
        lines.append(f"  {clean(f'and {sum(hidden.values())} more: {and_more(told, 3)}', width - 2)}")
    total = sum(len(group) for of_kernel in groups.values() for group in of_kernel)
    return "\n".join([f"{title} ({total})", *lines])


def _told(group: list[Entry], width: int) -> list[str]:
    head, outcome, why = words(group)
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


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
