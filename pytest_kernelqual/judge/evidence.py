"""How much the equality of a candidate with the fixed launch proves."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import structs

from pytest_kernelqual.model.outcome import EVIDENCE, PASSING, Evidence
from pytest_kernelqual.model.record import CandidateRecord


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


def held_to(record: CandidateRecord, required: Evidence | None) -> CandidateRecord:
    """Return the record of a candidate with what it lacks, where its evidence is weaker than is required.

    The fixed launch's own config lacks nothing: it is what production launches.
    """
    weak = record.outcome in PASSING and strength(record.evidence) < strength(required)
    if not weak or record.same_as_fixed:
        return record
    record = structs.replace(record, lacks=required)
    if not falls_short(record):
        return record
    shown = ": ".join([f"{required} is required, and {record.evidence} is all that is shown", *record.fragile[:1]])
    return structs.replace(record, reason="; ".join(filter(None, [shown, record.reason])))


def falls_short(record: CandidateRecord) -> bool:
    """Tell whether a candidate lacks required evidence; the interpreter, which has no other to give, does not count."""
    return record.lacks is not None and record.evidence != "interpreted"
