"""What changed from one report to another: kernel by kernel, case by case, candidate by candidate, row by row."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.judge.evidence import strength
from pytest_kernelqual.model.case import id_of
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.outcome import PASSING
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    CommittedRecord,
    Document,
    FixedRecord,
    KernelRecord,
)
from pytest_kernelqual.report.change import KINDS, WORSE, Change, ChangeKind, Diff, Turn
from pytest_kernelqual.report.entries import SESSION_NODEID, explanation
from pytest_kernelqual.report.gate_changes import passes_by_screen, requirement_change, screen_change, tolerance_change
from pytest_kernelqual.report.named import Named
from pytest_kernelqual.report.pairing import (
    environment_changes,
    fixed_bytes,
    id_of_record,
    is_file,
    kernel_pairs,
    keyed,
    other_devices,
    spec_file,
)
from pytest_kernelqual.report.phrases import and_more, counted
from pytest_kernelqual.report.row_changes import RowScope, new_row, row_changes
from pytest_kernelqual.report.rows import row_name
from pytest_kernelqual.report.target_changes import compiled_row_changes, target_changes

MARGIN = 0.05
"""By how much the ratio of committed to fixed time must move: as where the decay gate begins to warn."""

_FIXED = "fixed launch"
_PASSES_BY = ("newly_qualified", "within_tolerance", "weakened_gate")
# What hides from a run whether something is still declared.
_HIDING = frozenset({"paths", "ignore"})
_GRAVITY = {kind: number for number, kind in enumerate(KINDS)}


class _Scope(NamedTuple):
    """What two reports allow to compare."""

    one_device: bool
    apart: str
    """Why bytes of the two runs cannot be compared; empty where they can."""
    margin: float
    declared: frozenset[str]
    """Node ids of items and kernels that HEAD knew of."""
    selected: frozenset[str]
    """Node ids of items that HEAD set out to run."""
    head_knows_all: bool
    broken_files: Mapping[str, str]
    """Spec files of which HEAD says that nothing in them can run, and why."""

    def absent(self, nodeid: str, dropped: ChangeKind) -> ChangeKind:
        """Tell whether HEAD dropped what it has no record of, or only did not run it."""
        return dropped if self.head_knows_all and nodeid not in self.declared else "not_run"


class _At(NamedTuple):
    """Where a change is."""

    kernel: KernelRecord
    case: str = ""

    def change(self, kind: ChangeKind, what: str = "", before: str = "", after: str = "", why: str = "") -> Change:
        return Change(
            kind=kind,
            nodeid=self.kernel.nodeid,
            kernel=self.kernel.kernel,
            case=self.case,
            what=what,
            before=before,
            after=after,
            why=why,
        )

    def turned(self, what: str, turn: Turn) -> Change:
        return self.change(turn.kind, what, turn.before, turn.after, turn.why)


def changes(base: Named, head: Named, *, fail_on: Collection[ChangeKind] = WORSE, margin: float = MARGIN) -> Diff:
    """Return what changed from `base` to `head`.

    Raises:
        DocumentError: A report is empty, or they have no kernel in common.
    """
    _check(base, head)
    a, b = base.document, head.document
    scope = _scope(a, b, margin)
    found = [] if scope.one_device else [Change(kind="not_comparable", why=_foreign(a, b))]
    found += _sessions(a, b)
    for before, after in kernel_pairs(a.kernels, b.kernels):
        found += _kernel(before, after, scope)
    found += compiled_row_changes(a.compiled_rows, b.compiled_rows)
    found.sort(key=lambda change: _GRAVITY[change.kind])
    counts: dict[str, int] = {}
    for change in found:
        counts[change.kind] = counts.get(change.kind, 0) + 1
    return Diff(
        worse=any(kind in fail_on for kind in counts),
        fail_on=sorted(set(fail_on), key=KINDS.index),
        digests=(a.digest, b.digest),
        environment=environment_changes(a.environment, b.environment) if a.environment and b.environment else {},
        notes=[*_notes(a, b, scope)],
        counts=counts,
        changes=found,
    )


def _check(base: Named, head: Named) -> None:
    for role, report in (("BASE", base), ("HEAD", head)):
        if not report.document.kernels:
            raise DocumentError(
                f"{role} {report.name} holds no kernels, so that there is nothing to compare; run again"
            )
    # Of a file that does not import any more no kernel is left.
    files = [{spec_file(kernel) for kernel in report.document.kernels} for report in (base, head)]
    paired = any(before and after for before, after in kernel_pairs(base.document.kernels, head.document.kernels))
    if not paired and not files[0] & files[1]:
        told = " and ".join(
            f"{role} {report.name} has {and_more([f'{kernel.kernel!a}' for kernel in report.document.kernels], 2)}"
            for role, report in (("BASE", base), ("HEAD", head))
        )
        raise DocumentError(f"the reports have no kernel in common: {told}; give two reports of one project")


def _scope(a: Document, b: Document, margin: float) -> _Scope:
    apart = other_devices(a.environment, b.environment)
    return _Scope(
        one_device=not apart or a.environment is None or b.environment is None,
        apart=apart,
        margin=margin,
        declared=frozenset(name for item in b.items for name in (item.nodeid, item.kernel)),
        selected=frozenset(item.nodeid for item in b.items if item.selected),
        head_knows_all=b.complete or (bool(b.items) and not _HIDING & b.narrowed.keys()),
        broken_files={spec_file(kernel): kernel.problem for kernel in b.kernels if kernel.problem},
    )


def _foreign(a: Document, b: Document) -> str:
    named = [
        f"{one.device.name} ({one.device.kind}, {one.device.architecture})"
        for one in (a.environment, b.environment)
        if one is not None
    ]
    return (
        f"BASE ran on {named[0]}, HEAD on {named[1]}: only what is declared, what is committed and compile targets are "
        "compared, no outcomes, evidence, bytes, verdicts or times"
    )


def _notes(a: Document, b: Document, scope: _Scope) -> Iterator[str]:
    for role, document in (("BASE", a), ("HEAD", b)):
        if document.environment is None:
            yield f"{role} does not tell on which device it ran: bytes are not compared"
        if not document.complete:
            told = and_more(document.incomplete_because, 2) or "it does not say why"
            means = "what it lacks may be there" if role == "BASE" else "what it lacks counts as not run"
            means = means if role == "BASE" or not scope.head_knows_all else "what it declares and lacks is not run"
            yield f"{role} is incomplete ({told}): {means}"


def _sessions(a: Document, b: Document) -> Iterator[Change]:
    """Tell what fails one of the sessions as a whole, and not the other."""
    sides: list[tuple[ChangeKind, Document, Document]] = [("failing_session", b, a), ("passing_session", a, b)]
    for kind, some, other in sides:
        for problem in dict.fromkeys(some.session_problems):
            if problem not in other.session_problems:
                yield Change(kind=kind, kernel=SESSION_NODEID, why=problem)


def _kernel(before: KernelRecord | None, after: KernelRecord | None, scope: _Scope) -> Iterator[Change]:
    some = after or before
    if some is None:
        return
    at = _At(some)
    if before is None and after is not None:
        yield from _added_kernel(at, after, scope)
    elif after is None and before is not None:
        yield from _absent_kernel(at, before, scope)
    elif before is not None and after is not None:
        if before.nodeid != after.nodeid:
            yield at.change("moved_kernel", "", before.nodeid, after.nodeid)
        if after.problem:
            if not before.problem:
                yield at.change("broken_kernel", why=_last_line(after.problem))
            return
        if before.problem:
            yield at.change("repaired_kernel")
        elif (screen := screen_change(before, after)) is not None:
            yield at.turned("", screen)
        yield from _cases(before, after, scope)
        yield from _rows(before, after, scope)


def _added_kernel(at: _At, kernel: KernelRecord, scope: _Scope) -> Iterator[Change]:
    if kernel.problem:
        yield at.change("broken_kernel", why=_last_line(kernel.problem))
        return
    blank = KernelRecord(kernel=kernel.kernel, nodeid=kernel.nodeid)
    if not is_file(kernel):
        yield at.change("added_kernel", why=_holds(kernel))
    found = [*_cases(blank, kernel, scope), *_rows(blank, kernel, scope)]
    # Of what is new only that is told which fails.
    yield from (change for change in found if not change.kind.startswith("added_"))


def _absent_kernel(at: _At, kernel: KernelRecord, scope: _Scope) -> Iterator[Change]:
    if is_file(kernel):
        blank = KernelRecord(kernel=kernel.kernel, nodeid=kernel.nodeid)
        yield from _rows(kernel, blank, scope)
    elif kernel.problem:
        yield at.change("repaired_kernel")
    elif spec_file(kernel) in scope.broken_files:
        yield at.change("broken_kernel", why=_last_line(scope.broken_files[spec_file(kernel)]))
    else:
        yield at.change(scope.absent(kernel.nodeid, "dropped_kernel"), why=_holds(kernel))


def _holds(kernel: KernelRecord) -> str:
    rows = [counted(len(kernel.committed), "committed row")] if kernel.committed else []
    return ", ".join([counted(len(kernel.cases), "case"), *rows])


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _cases(before: KernelRecord, after: KernelRecord, scope: _Scope) -> Iterator[Change]:
    a, b = keyed(before.cases, id_of_record), keyed(after.cases, id_of_record)
    for name, case in b.items():
        at = _At(after, name)
        if name in a:
            yield from _case(at, a[name], case, scope, screened=passes_by_screen(before, after, case))
        elif case.passed:
            yield at.change("added_case", why=counted(len(case.candidates), "candidate"))
        else:
            yield at.change("failing_case", why=_failure(case))
    for name, case in a.items():
        if name not in b:
            yield _At(after, name).change(scope.absent(case.nodeid, "dropped_case"))


def _failure(case: CaseRecord) -> str:
    if case.fixed.outcome != "qualified":
        return f"{_FIXED}: {case.fixed.outcome}: {explanation(case.fixed)}"
    more = len(case.failures) - 1
    told = case.failures[0] if case.failures else "failed without a reason"
    return f"{told} (and {more} more)" if more > 0 else told


def _case(at: _At, before: CaseRecord, after: CaseRecord, scope: _Scope, *, screened: bool) -> Iterator[Change]:
    yield from (at.change(*found) for found in target_changes(before.targets, after.targets))
    if not scope.one_device:
        yield from _declared(at, keyed(before.candidates, id_of_record), keyed(after.candidates, id_of_record))
        return
    found = [*_fixed(at, before, after, scope), *_candidates(at, before, after)]
    yield from found
    if before.passed and not after.passed and not any(change.kind in WORSE for change in found):
        yield at.change("failing_case", why=_failure(after))
    # Where less is asked, that is told, and nothing became better.
    if after.passed and not before.passed and not screened and not any(change.kind in _PASSES_BY for change in found):
        yield at.change("passing_case", why=_failure(before))


def _fixed(at: _At, before: CaseRecord, after: CaseRecord, scope: _Scope) -> Iterator[Change]:
    a, b = before.fixed, after.fixed
    if a.outcome != b.outcome:
        yield at.change(_outcome_kind(a.outcome, b.outcome), _FIXED, a.outcome, b.outcome, explanation(b))
    if a.config != b.config:
        yield at.change("fixed_launch", _FIXED, Config(a.config).id, Config(b.config).id)
    if fixed_bytes(before, after, scope.apart)[0] == "changed":
        yield at.change("production_bytes", _FIXED, why="on the same inputs")
    yield from _invariance(at, _FIXED, a, b)


def _outcome_kind(before: str, after: str) -> ChangeKind:
    if after in PASSING:
        return "other_outcome" if before in PASSING else "newly_qualified"
    if before not in PASSING:
        return "other_outcome"
    # That nothing is known is not that it is bad.
    return "not_run" if after == "not_run" else "out_of_resources" if after == "out_of_resources" else "disqualified"


def _invariance(
    at: _At, what: str, a: FixedRecord | CandidateRecord, b: FixedRecord | CandidateRecord
) -> Iterator[Change]:
    told = {True: "batch invariant", False: "not batch invariant"}
    if a.batch_invariant != b.batch_invariant and a.batch_invariant is not None and b.batch_invariant is not None:
        kind: ChangeKind = "gained_evidence" if b.batch_invariant else "lost_evidence"
        yield at.change(kind, what, told[a.batch_invariant], told[b.batch_invariant], b.batch_note)


def _candidates(at: _At, before: CaseRecord, after: CaseRecord) -> Iterator[Change]:
    a, b = keyed(before.candidates, id_of_record), keyed(after.candidates, id_of_record)
    # Without a reference nothing is known of candidates, which the fixed launch tells once for all.
    unknown = [case.fixed.outcome != "qualified" for case in (before, after)]
    for name, two in b.items():
        one = a.get(name)
        if one is None:
            continue
        if one.outcome != two.outcome:
            if not ((unknown[0] and one.outcome == "not_run") or (unknown[1] and two.outcome == "not_run")):
                kind = _candidate_kind(one, two)
                yield at.change(kind, name, one.outcome, two.outcome, explanation(two))
        elif one.evidence != two.evidence:
            kind = "gained_evidence" if strength(two.evidence) > strength(one.evidence) else "lost_evidence"
            yield at.change(kind, name, one.evidence or "none", two.evidence or "none", "; ".join(two.fragile[:1]))
        if (required := requirement_change(one, two)) is not None:
            yield at.turned(name, required)
        if one.batch_invariant is not two.batch_invariant:
            yield from _invariance(at, name, one, two)
    yield from _declared(at, a, b)


def _candidate_kind(before: CandidateRecord, after: CandidateRecord) -> ChangeKind:
    if before.outcome in PASSING and after.outcome in PASSING:
        return "lost_evidence" if after.outcome == "within_tolerance" else "gained_evidence"
    return tolerance_change(before, after) or _outcome_kind(before.outcome, after.outcome)


def _declared(at: _At, before: Mapping[str, CandidateRecord], after: Mapping[str, CandidateRecord]) -> Iterator[Change]:
    for name, record in after.items():
        if name not in before:
            yield at.change("added_candidate", name, "", record.outcome)
    for name, record in before.items():
        if name not in after:
            yield at.change("dropped_candidate", name, record.outcome)


def _rows(before: KernelRecord, after: KernelRecord, scope: _Scope) -> Iterator[Change]:
    at = _At(after)
    a, b = keyed(before.committed, row_name), keyed(after.committed, row_name)
    other_launch = _other_fixed_launch(before, after)
    for name, row in b.items():
        if name in a:
            same = id_of(row.key) not in other_launch
            found = [*row_changes(a[name], row, RowScope(scope.margin, scope.one_device, same))]
        else:
            told = new_row(row)
            found = [told] if told is not None and (scope.one_device or told.kind == "added_row") else []
        yield from (at.turned(name, one) for one in found)
    for name, row in a.items():
        if name not in b:
            gone = _absent_row(row, scope)
            yield from (at.turned(name, one) for one in gone)


def _absent_row(row: CommittedRecord, scope: _Scope) -> Iterator[Turn]:
    kind = scope.absent(row.nodeid, "dropped_row")
    # A file in which nothing is wrong has no record.
    gone = kind != "not_run" or row.nodeid in scope.selected
    if row.passed or not gone:
        yield Turn(kind, row.verdict)
    elif scope.one_device:
        yield Turn("passing_row", row.verdict, "", "the row or file is gone, or nothing is wrong with it now")


def _other_fixed_launch(before: KernelRecord, after: KernelRecord) -> set[str]:
    """Return the keys for which production launches another config than before."""
    a = keyed(before.cases, id_of_record)
    return {id_of(case.key) for case in after.cases if case.id in a and a[case.id].fixed.config != case.fixed.config}
