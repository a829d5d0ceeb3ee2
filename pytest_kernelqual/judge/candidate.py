"""What a candidate's launches on one input set showed, turned into an outcome."""

from collections.abc import Sequence
from typing import NamedTuple

from pytest_kernelqual.judge.baseline import LEAKS
from pytest_kernelqual.model.outcome import Outcome


class CandidateFacts(NamedTuple):
    """Which launches gave the bytes of the fixed launch, and how the launches differ among each other."""

    equal: Sequence[bool]
    """Per launch, in order: same bytes as the fixed launch."""
    same_under_one_poison: bool
    """All launches under the same poison pattern gave the same bytes."""
    same_under_both_poisons: bool
    surviving_poison: str = ""
    """Where poison survived under both patterns, in words; empty where it did not."""
    leaks: bool = False
    """The bytes follow what is left in shared memory and registers, memory staying as it was."""
    beside_noise: Sequence[bool] = ()
    """Per launch: it ran beside the noise kernel; empty where none did."""
    within_tolerance: bool = False
    """The spec declares a tolerance, and every element that differs is within it."""


def judge_candidate(facts: CandidateFacts) -> tuple[Outcome, str]:
    """Return the outcome and the start of its reason; a plain mismatch gets its figures from the comparison.

    A candidate that differs from itself is no mere mismatch: its next launch may well agree.
    """
    if all(facts.equal):
        return "qualified", ""
    if facts.leaks:
        return "nondeterministic", LEAKS
    if facts.surviving_poison:
        return (
            "incomplete_write",
            f"output holds uninitialised memory (left unwritten, or read before written): {facts.surviving_poison}",
        )
    differing = len(facts.equal) - sum(facts.equal)
    if not facts.same_under_one_poison:
        count = f"{differing} of {len(facts.equal)} launches differ from the fixed launch"
        noisy = [noise for noise, same in zip(facts.beside_noise, facts.equal, strict=False) if not same]
        if noisy and all(noisy):
            count += ", only beside the noise kernel: a race, or a missing barrier"
        return "nondeterministic", f"launches on the same inputs gave different bytes ({count})"
    if not facts.same_under_both_poisons:
        return "nondeterministic", "reads uninitialised memory: the bytes change with the poison"
    return ("within_tolerance" if facts.within_tolerance else "mismatch"), ""


def judge_invariance(invariant: bool | None, note: str) -> tuple[Outcome, str]:  # noqa: FBT001 - what was found
    """Return the outcome and reason of a launch that must be batch invariant; None: it could not be told."""
    if invariant:
        return "qualified", ""
    if invariant is None:
        return "not_run", f"whether it is batch invariant cannot be told: {note}"
    return "mismatch", f"not batch invariant: {note}"
