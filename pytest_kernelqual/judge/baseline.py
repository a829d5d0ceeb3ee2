"""Whether the fixed launch can serve as the byte reference."""

from typing import NamedTuple

from pytest_kernelqual.model.outcome import Outcome


class FixedFacts(NamedTuple):
    """What three fixed launches on one input set showed: twice under poison A, once under poison B."""

    same_under_one_poison: bool
    same_under_both_poisons: bool
    surviving_poison: str = ""
    """Where poison survived in both, in words; empty where it did not."""


def judge_fixed(facts: FixedFacts) -> tuple[Outcome, str]:
    """Return the outcome of the fixed launch and one line that explains it."""
    if facts.surviving_poison:
        return (
            "incomplete_write",
            f"the fixed launch leaves uninitialised memory in its output: {facts.surviving_poison}",
        )
    if not facts.same_under_one_poison:
        return "nondeterministic", "two fixed launches on the same inputs gave different bytes: nothing can be compared"
    if not facts.same_under_both_poisons:
        return "nondeterministic", "the fixed launch reads uninitialised memory: its bytes change with the poison"
    return "qualified", ""
