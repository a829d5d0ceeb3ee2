"""Outcomes of launches combined into outcomes of candidates, and those into passed or failed cases."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pytest_kernelqual.judge.candidate import judge_invariance
from pytest_kernelqual.judge.evidence import falls_short, strength
from pytest_kernelqual.judge.reference import suspicion
from pytest_kernelqual.model.messages import CandidateInfo, Tried
from pytest_kernelqual.model.outcome import PASSING, Outcome
from pytest_kernelqual.model.profiles import NORMAL, InputSet
from pytest_kernelqual.model.record import CandidateRecord, FixedRecord

ALWAYS_FAIL: frozenset[Outcome] = frozenset(
    {"mismatch", "nondeterministic", "incomplete_write", "out_of_bounds_write", "fault"}
)

_DIFFERING = ALWAYS_FAIL | {"within_tolerance"}

# The first of these that any input set showed is the outcome of the candidate.
SEVERITY: tuple[Outcome, ...] = (
    "fault",
    "timeout",
    "out_of_bounds_write",
    "incomplete_write",
    "nondeterministic",
    "baseline_suspect",
    "mismatch",
    "launch_error",
    "out_of_resources",
    "compile_error",
    "unsupported",
    "not_run",
    "within_tolerance",
    "qualified",
)

# A fixed launch may owe one of these to what a candidate before it left behind.
UNRELIABLE: frozenset[Outcome] = frozenset({"nondeterministic", "incomplete_write", "out_of_bounds_write"})

# By one of these a fixed launch refuses an input set: it raises, or cannot be launched.
REFUSALS: frozenset[Outcome] = frozenset(
    {"launch_error", "out_of_resources", "compile_error", "unsupported", "not_run"}
)

# After one of these, further input sets can tell nothing new or would cost a process each.
FINAL: frozenset[Outcome] = REFUSALS | {"fault", "timeout"}


class Attempt(NamedTuple):
    """What a candidate did on one input set."""

    input_set: InputSet
    tried: Tried


def worth_trying(attempts: Sequence[Attempt], input_set: InputSet) -> bool:
    """Tell whether another input set can tell anything new of a candidate.

    Of one that has failed, only further seeds of `normal` do: on how many of them it fails.
    """
    outcomes = {attempt.tried.outcome for attempt in attempts}
    return not (outcomes & FINAL or (input_set.profile != NORMAL and outcomes & ALWAYS_FAIL))


def combine(info: CandidateInfo, attempts: Sequence[Attempt]) -> CandidateRecord:
    """Return the record of a candidate from its attempts, one per input set and in their order."""
    input_set, worst = min(
        attempts, key=lambda attempt: (SEVERITY.index(attempt.tried.outcome), strength(attempt.tried.evidence))
    )
    detail: dict[str, Any] = dict(worst.detail)
    reason = worst.reason
    if worst.outcome in _DIFFERING:
        detail["input_set"] = str(input_set)
        if input_set.profile != NORMAL:
            reason += f" (inputs: {input_set})"
        if len(attempts) > 1:
            differing = [attempt.input_set for attempt in attempts if attempt.tried.outcome != "qualified"]
            detail["input_sets_differing"] = [str(input_set) for input_set in differing]
    tries = [attempt.tried for attempt in attempts]
    twins = {tried.same_program_as for tried in tries}
    return CandidateRecord(
        id=info.id,
        config=info.config,
        outcome=worst.outcome,
        reason=reason,
        evidence=worst.evidence,
        phase=worst.phase,
        detail=detail,
        resources=next((tried.resources for tried in tries if tried.resources), {}),
        seeds=len(attempts),
        launches=sum(tried.launches for tried in tries),
        order=worst.order,
        fragile=worst.fragile,
        provocation=worst.provocation,
        same_program_as=twins.pop() if len(twins) == 1 else None,
        # Checked on the first input set alone.
        batch_invariant=tries[0].batch_invariant,
        batch_note=tries[0].batch_note,
        same_as_fixed=any(tried.same_as_fixed for tried in tries),
    )


def candidate_fails(record: CandidateRecord, *, screen: str | None, fail_on: Collection[str] = ()) -> bool:
    """Tell whether a candidate's outcome fails its case.

    A screened search space only records its bad members, those of weaker evidence than is required among them.
    What the project names in `fail_on` fails everywhere.
    """
    if falls_short(record) and screen is None:
        return True
    if record.outcome == "qualified":
        return False
    if record.outcome in fail_on:
        return True
    bad = record.outcome in ALWAYS_FAIL or (record.outcome == "timeout" and record.phase != "compile")
    return bad and screen is None


def case_failures(
    fixed: FixedRecord,
    candidates: Sequence[CandidateRecord],
    *,
    screen: str | None,
    fail_on: Collection[str] = (),
    batch_required: bool = False,
) -> list[str]:
    """Return why a case fails, one line each; empty when it passes.

    `batch_required`: rows must have the same bytes alone and in the batch; the fixed launch is a reference anyway.
    """
    if fixed.outcome != "qualified":
        return [f"fixed launch: {fixed.outcome}: {fixed.reason}"]
    failures = [
        f"{record.id}: {record.outcome}: {record.reason}"
        for record in candidates
        if candidate_fails(record, screen=screen, fail_on=fail_on)
    ]
    if batch_required and not fixed.batch_invariant:
        told = judge_invariance(fixed.batch_invariant, fixed.batch_note)[1]
        failures.insert(0, f"the fixed launch, of which the spec requires it: {told}")
    if not failures and not any(compared(record) or _proved(record) for record in candidates):
        told = "; ".join(f"{record.id}: {record.outcome}: {record.reason}" for record in candidates[:3])
        failures.append(f"nothing was compared with the fixed launch ({told or 'no candidates'})")
    # An oracle has cleared the fixed launch.
    hint = suspicion(candidates) if failures and not fixed.oracle else ""
    return [*failures, hint] if hint else failures


def compared(record: CandidateRecord) -> bool:
    """Tell whether the bytes of a config other than the fixed launch's own were compared with it."""
    not_run = record.evidence == "identical_binary" and not record.launches
    return not (record.same_as_fixed or not_run) and record.outcome in {
        *PASSING,
        "mismatch",
        "nondeterministic",
        "incomplete_write",
        "out_of_bounds_write",
    }


def _proved(record: CandidateRecord) -> bool:
    """Tell whether a config other than the fixed launch's own was shown to be the same program."""
    return not record.same_as_fixed and record.evidence == "identical_binary"
