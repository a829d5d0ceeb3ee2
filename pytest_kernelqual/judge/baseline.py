"""Whether the fixed launch can serve as the byte reference."""

from typing import NamedTuple

from pytest_kernelqual.model.outcome import Outcome

LEAKS = "reads uninitialised shared memory or registers: the bytes change with what is left there"


class FixedFacts(NamedTuple):
    """What three fixed launches on one input set showed: twice under poison A, once under poison B."""

    same_under_one_poison: bool
    same_under_both_poisons: bool
    surviving_poison: str = ""
    """Where poison survived in both, in words; empty where it did not."""
    leaks: bool = False
    """The bytes follow what is left in shared memory and registers, memory staying as it was."""
    beside_noise: bool = False
    """The second launch under poison A ran beside the noise kernel."""


def judge_fixed(facts: FixedFacts) -> tuple[Outcome, str]:
    """Return the outcome of the fixed launch and one line that explains it."""
    if facts.leaks:
        return "nondeterministic", f"the fixed launch {LEAKS}"
    if facts.surviving_poison:
        return (
            "incomplete_write",
            f"the fixed launch leaves uninitialised memory in its output: {facts.surviving_poison}",
        )
    if not facts.same_under_one_poison:
        noise = " (one ran beside the noise kernel: a race?)" if facts.beside_noise else ""
        told = f"two fixed launches on the same inputs gave different bytes{noise}: nothing can be compared"
        return "nondeterministic", told
    if not facts.same_under_both_poisons:
        return "nondeterministic", "the fixed launch reads uninitialised memory: its bytes change with the poison"
    return "qualified", ""
