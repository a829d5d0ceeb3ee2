"""How much the equality of a candidate with the fixed launch proves."""

from collections.abc import Iterable
from typing import NamedTuple

from pytest_kernelqual.model.outcome import EVIDENCE, Evidence


class EvidenceFacts(NamedTuple):
    """What is known of a candidate that qualified on one input set, besides its bytes."""

    interpreted: bool = False
    """The Triton interpreter ran it."""
    same_program: bool = False
    """It launches the code of the fixed launch, on the same arguments, among the same calls."""
    same_order: bool = False
    """It computes every element in the order of the fixed launch, on the same arguments, among the same calls."""


def grade(facts: EvidenceFacts) -> Evidence:
    """Return the strongest evidence that the facts give."""
    if facts.interpreted:
        return "interpreted"
    if facts.same_program:
        return "identical_binary"
    if facts.same_order:
        return "identical_order"
    return "identical_bytes"


def strength(evidence: Evidence | None) -> int:
    """Return a number that is larger for stronger evidence, and 0 for none."""
    return EVIDENCE.index(evidence) + 1 if evidence is not None else 0


def weakest(found: Iterable[Evidence | None]) -> Evidence | None:
    """Return what several input sets prove together; None where one of them proves nothing, or where there is none."""
    return min(found, key=strength, default=None)
