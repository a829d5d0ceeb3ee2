"""Which side is suspect where the fixed launch and its oracle, or its candidates, say different things."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from pytest_kernelqual.model.messages import Opened, Tried
from pytest_kernelqual.model.outcome import Outcome
from pytest_kernelqual.model.record import CandidateRecord, Deviation

_COMPARED: frozenset[Outcome] = frozenset({"qualified", "within_tolerance", "mismatch"})


def judge_rejected(opened: Opened, attempts: Sequence[Tried]) -> Opened:
    """Return a fixed launch that differs from the oracle with what its candidates say about it.

    It is `baseline_suspect` when there are candidates that differ from it, and all of these agree with the oracle.
    """
    compared = [tried for tried in attempts if tried.outcome in _COMPARED and not tried.same_as_fixed]
    differing = [tried for tried in compared if tried.outcome != "qualified"]
    right = [tried for tried in differing if tried.within_oracle]
    some = f"{len(differing)} of {len(compared)} candidates have other bytes than it"
    outcome: Outcome = "mismatch"
    if not compared:
        told = "no candidate can tell which of the two is right"
    elif not differing:
        told = "no candidate has other bytes than it: the oracle is suspect, or the kernel whatever its config"
    elif len(right) == len(differing):
        outcome = "baseline_suspect"
        told = f"{some}, and all of these agree with the oracle"
    else:
        told = f"{some}, {len(right)} of which agree with the oracle"
    return structs.replace(opened, outcome=outcome, reason=f"{told}; {opened.reason}")


def disowned(tried: Tried) -> Tried:
    """Return what becomes of a candidate that was compared with a fixed launch which differs from the oracle.

    Whatever it did wrong by itself stands.
    """
    if tried.outcome not in _COMPARED:
        return tried
    told = "its bytes" if tried.outcome == "qualified" else "other bytes, which do not agree with the oracle either"
    if tried.within_oracle:
        told = "other bytes, which agree with the oracle"
    reason = f"no baseline: the fixed launch differs from the oracle; this candidate has {told}"
    return Tried(outcome="not_run", reason=reason, detail=tried.detail, launches=tried.launches)


def worst_deviations(opened: Iterable[Opened]) -> list[Deviation]:
    """Return for each output the input set on which it is furthest from the oracle."""
    worst: dict[str, Deviation] = {}
    for found in (item for one in opened for item in one.oracle):
        known = worst.setdefault(found.output, found)
        if (found.beyond, found.max_absolute or 0) > (known.beyond, known.max_absolute or 0):
            worst[found.output] = found
    return list(worst.values())


def suspicion(candidates: Sequence[CandidateRecord]) -> str:
    """Return a hint where all candidates agree with each other and none with the fixed launch; empty otherwise."""
    seen = [
        record
        for record in candidates
        if record.outcome in _COMPARED and not record.same_as_fixed and record.same_program_as is None
    ]
    outputs = {record.detail.get("output") if record.outcome == "mismatch" else None for record in seen}
    if len(seen) < 2 or len(outputs) != 1 or None in outputs:  # noqa: PLR2004 - one alone agrees with nobody
        return ""
    return (
        f"all {len(seen)} candidates agree with each other byte for byte, and none with the fixed launch: "
        "the fixed launch may be the wrong one; oracle= would tell"
    )
