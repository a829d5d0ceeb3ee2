"""What a kernel, a candidate or a committed row is held to less strictly, or more, than it was."""

from collections.abc import Iterator

from pytest_kernelqual.judge.evidence import strength
from pytest_kernelqual.judge.verdict import candidate_fails
from pytest_kernelqual.model.outcome import PASSING
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, CommittedRecord, KernelRecord
from pytest_kernelqual.report.change import ChangeKind, Turn

_CONTROL = "control"


def screen_change(before: KernelRecord, after: KernelRecord) -> Turn | None:
    """Tell of a screen, which lets bad candidates be recorded only, that was added or removed."""
    if (before.screen is None) == (after.screen is None):
        return None
    if after.screen is not None:
        return Turn("weakened_gate", "", "screened", f"bad candidates are only recorded now: {after.screen}")
    return Turn("tightened_gate", "screened", "", "bad candidates fail their case now")


def passes_by_screen(before: KernelRecord, after: KernelRecord, case: CaseRecord) -> bool:
    """Tell whether a case of HEAD passes only since its bad candidates are recorded now."""
    screened = before.screen is None and after.screen is not None
    return screened and case.passed and any(candidate_fails(record, screen=None) for record in case.candidates)


def tolerance_change(before: CandidateRecord, after: CandidateRecord) -> ChangeKind | None:
    """Tell of a candidate that passes by a tolerance alone now: it did not qualify, and no bytes became equal."""
    if before.outcome in PASSING or after.outcome != "within_tolerance":
        return None
    found = before.detail.get("mismatches")
    told = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    # A mismatch says how much is beyond the tolerance wherever there is one.
    new = bool(told) and all(one.get("beyond_tolerance") is None for one in told)
    return "weakened_gate" if new else "within_tolerance"


def requirement_change(before: CandidateRecord, after: CandidateRecord) -> Turn | None:
    """Tell of a candidate whose evidence fell short of what was required, and does not now since less is required."""
    less = strength(after.lacks) < strength(before.lacks)
    if not less or after.outcome not in PASSING or after.same_as_fixed:
        return None
    if strength(after.evidence) >= strength(before.lacks):
        return None
    now = f"{after.lacks} is required now" if after.lacks is not None else "less is required now"
    return Turn("weakened_gate", f"lacks {before.lacks}", after.evidence or "none", now)


def margin_changes(before: CommittedRecord, after: CommittedRecord) -> Iterator[Turn]:
    """Tell of gates of a row whose margin is another."""
    margins = {gate.gate: gate.margin_pct for gate in before.gates}
    for gate in after.gates:
        was = margins.get(gate.gate)
        if was is None or was == gate.margin_pct or gate.gate == _CONTROL:
            continue
        kind: ChangeKind = "weakened_gate" if gate.margin_pct > was else "tightened_gate"
        yield Turn(kind, f"{was:g} %", f"{gate.margin_pct:g} %", f"margin of {gate.gate}")
