"""What changed of committed configs from one report to another."""

from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

from pytest_kernelqual.judge.evidence import strength
from pytest_kernelqual.judge.speed import Timed, movement
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.record import CommittedRecord, CommittedVerdict, GateRecord
from pytest_kernelqual.report.change import ChangeKind, Turn
from pytest_kernelqual.report.gate_changes import margin_changes
from pytest_kernelqual.report.rows import undecided

# Verdicts of which no row need be there.
_WITHOUT_ROW: tuple[CommittedVerdict, ...] = ("missing", "bad_file", "duplicate", "orphan")
_SLOW: tuple[CommittedVerdict, ...] = ("slower_than_fixed", "slower_than_best", "decayed")
_BASELINE_MOVED = "baseline moved"


class RowScope(NamedTuple):
    """How two rows may be compared."""

    margin: float
    """By how much a ratio of times must move, as a fraction."""
    one_device: bool
    one_fixed_launch: bool
    """Production launches the same config in both runs, so that ratios to it mean the same."""


def new_row(row: CommittedRecord) -> Turn | None:
    """Return what to tell of a row, or of a finding about a file, that BASE does not have."""
    if not row.passed:
        return Turn("failing_row", "", row.verdict, _why(row))
    return Turn("added_row", "", _config(row), row.verdict) if _is_there(row) else None


def row_changes(before: CommittedRecord, after: CommittedRecord, scope: RowScope) -> Iterator[Turn]:
    """Yield what changed of a row."""
    if _is_there(before) and after.verdict == "missing":
        yield Turn("dropped_row", _config(before), "", _why(after))
        return
    there = _is_there(before) and _is_there(after)
    if there and _identity(before) != _identity(after):
        yield Turn("retuned", _config(before), _config(after))
    elif not _is_there(before) and _is_there(after):
        yield Turn("added_row", before.verdict, _config(after), after.verdict)
    if not scope.one_device:
        return
    gates = [*margin_changes(before, after)]
    yield from gates
    # By a wider margin nothing becomes faster.
    weakened = after.passed and any(change.kind == "weakened_gate" for change in gates)
    if before.passed != after.passed and not undecided(after) and not weakened:
        yield _passing(before, after)
    elif before.verdict != after.verdict:
        yield Turn("other_verdict", before.verdict, after.verdict, _why(after))
    if before.passed == after.passed and strength(before.evidence) != strength(after.evidence):
        yield _evidence(before, after)
    if before.production != "changed" and after.production == "changed":
        yield Turn("production_bytes", before.production, "changed", _why(after))
    if scope.one_fixed_launch and before.passed == after.passed:
        yield from _speed(before, after, scope.margin)


def _passing(before: CommittedRecord, after: CommittedRecord) -> Turn:
    kind: ChangeKind
    if before.passed:
        kind = "slower" if after.verdict in _SLOW else "failing_row"
    else:
        kind = "faster" if before.verdict in _SLOW else "passing_row"
    return Turn(kind, before.verdict, after.verdict, _why(after))


def _evidence(before: CommittedRecord, after: CommittedRecord) -> Turn:
    kind: ChangeKind = "lost_evidence" if strength(after.evidence) < strength(before.evidence) else "gained_evidence"
    return Turn(kind, before.evidence or "none", after.evidence or "none", _why(after))


def _speed(before: CommittedRecord, after: CommittedRecord, margin: float) -> Iterator[Turn]:
    moved = _baseline_moved(after)
    if moved and not _baseline_moved(before):
        yield Turn("baseline_moved", "", "", moved)
    one, other = _gate(before), _gate(after)
    # Another way of timing is another question.
    if moved or one is None or other is None or (one.method, one.cache) != (other.method, other.cache):
        return
    timed, timed_now = _timed(one), _timed(other)
    if timed is None or timed_now is None:
        return
    found = movement(timed, timed_now, margin=margin)
    if found != "same":
        yield Turn(found, _told(timed), _told(timed_now), "time of one launch, committed to fixed")


def _gate(row: CommittedRecord) -> GateRecord | None:
    return next((gate for gate in row.gates if gate.gate == "not_slower_than_fixed"), None)


def _timed(gate: GateRecord) -> Timed | None:
    """Return what a gate measured; None where it did not, or its figures are no times."""
    if len(gate.ratio) != 3 or len(gate.time_us) != 2:  # noqa: PLR2004 - estimate and bounds; A and B
        return None
    estimates = gate.processes or gate.ratio[:1]
    figures = [*estimates, *gate.ratio, *gate.time_us]
    if not all(isfinite(figure) and figure > 0 for figure in figures):
        return None
    return Timed(estimates, gate.ratio[1], gate.ratio[2], gate.time_us[0], gate.time_us[1])


def _told(timed: Timed) -> str:
    low, high = min(timed.estimates), max(timed.estimates)
    return f"{low:.3f}" if f"{low:.3f}" == f"{high:.3f}" else f"{low:.3f} to {high:.3f}"


def _baseline_moved(row: CommittedRecord) -> str:
    told = (gate.reason for gate in row.gates if gate.gate == "decay" and gate.verdict == "ok")
    return next((reason for reason in told if reason.startswith(_BASELINE_MOVED)), "")


def _is_there(row: CommittedRecord) -> bool:
    return row.verdict not in _WITHOUT_ROW


def _identity(row: CommittedRecord) -> Config | None:
    return Config(row.config) if row.config is not None else None


def _config(row: CommittedRecord) -> str:
    return Config(row.config).id if row.config is not None else "fixed launch"


def _why(row: CommittedRecord) -> str:
    return "; ".join(row.reasons)
