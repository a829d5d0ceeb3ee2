"""What changed between two reports of one tree, such as before and after a compiler upgrade."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec import Struct, field

from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, Document, FixedRecord
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord
from pytest_kernelqual.report.pairing import (
    Bytes,
    Changes,
    Pair,
    both,
    differing,
    environment_changes,
    fixed_bytes,
    id_of_record,
    keyed,
    other_devices,
)

COMPARISON_SCHEMA = "kernelqual/toolchain-comparison/1"

_OF_FIXED = ("outcome", "config", "batch_invariant")
_OF_CANDIDATE = ("outcome", "evidence", "batch_invariant")
_OF_TARGET = ("outcome", "evidence")
_ORDER = "order"


class CaseChange(Struct, frozen=True, kw_only=True):
    """One case in which something differs."""

    nodeid: str
    """Of the kernel."""
    case: str
    fixed_bytes: Bytes
    """Of the fixed launch's output; `unknown` where neither report has one."""
    why: str = ""
    """Why bytes cannot be compared."""
    fixed: Changes = field(default_factory=dict)
    """`outcome`, `config`, `batch_invariant`, the digest of the arithmetic `order` where both reports have one, and
    resources such as `registers`."""
    candidates: dict[str, Changes] = field(default_factory=dict)
    """By id: `outcome`, `evidence`, `batch_invariant`, `order` as above, and resources such as `registers`."""
    targets: dict[str, dict[str, Changes]] = field(default_factory=dict)
    """By compile target, then by id of the launch: `outcome`, `evidence` and resources such as `registers`."""


class Comparison(Struct, frozen=True, kw_only=True):
    """What differs between report A and report B; empty lists where nothing does."""

    schema: str = COMPARISON_SCHEMA
    digests: Pair
    """Of the decisions of both reports."""
    environment: Changes = field(default_factory=dict)
    fixed_bytes: dict[str, int] = field(default_factory=dict)
    """Cases of both reports by what became of the fixed launch's bytes."""
    cases: list[CaseChange] = field(default_factory=list)
    problems: dict[str, Pair] = field(default_factory=dict)
    """Kernels that could not be run, by node id."""
    only_in_a: list[str] = field(default_factory=list)
    """Kernels, cases, candidates and compile targets of cases that report B lacks."""
    only_in_b: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Tell whether anything but the toolchain and resources differs, or could not be compared."""
        return bool(self.problems or self.only_in_a or self.only_in_b) or any(map(_matters, self.cases))


def compare(a: Document, b: Document) -> Comparison:
    """Return what differs, in the order of node ids; swapping the reports swaps every pair."""
    apart = other_devices(a.environment, b.environment)
    kernels_a, kernels_b = keyed(a.kernels, lambda one: one.nodeid), keyed(b.kernels, lambda one: one.nodeid)
    only: tuple[list[str], list[str]] = ([], [])
    problems: dict[str, Pair] = {}
    counts: dict[str, int] = {}
    changes = []
    for name, kernel_a, kernel_b in both(kernels_a, kernels_b, only):
        if kernel_a.problem != kernel_b.problem:
            problems[name] = (kernel_a.problem, kernel_b.problem)
        cases = both(keyed(kernel_a.cases, id_of_record), keyed(kernel_b.cases, id_of_record), only, f"{name} ")
        for id_, case_a, case_b in cases:
            change = _case(case_a, case_b, apart, nodeid=name, id_=id_, only=only)
            counts[change.fixed_bytes] = counts.get(change.fixed_bytes, 0) + 1
            other_bytes = change.fixed_bytes in ("changed", "not_comparable")
            if other_bytes or change.fixed or change.candidates or change.targets:
                changes.append(change)
    return Comparison(
        digests=(a.digest, b.digest),
        environment=environment_changes(a.environment, b.environment),
        fixed_bytes=counts,
        cases=changes,
        problems=problems,
        only_in_a=only[0],
        only_in_b=only[1],
    )


def _case(
    a: CaseRecord, b: CaseRecord, apart: str, *, nodeid: str, id_: str, only: tuple[list[str], list[str]]
) -> CaseChange:
    same, why = fixed_bytes(a, b, apart)
    candidates = both(keyed(a.candidates, id_of_record), keyed(b.candidates, id_of_record), only, f"{nodeid} {id_} ")
    targets = both(_by_target(a), _by_target(b), only, f"{nodeid} {id_} on ")
    found = {name: _record_changes(one, other, _OF_CANDIDATE) for name, one, other in candidates}
    return CaseChange(
        nodeid=nodeid,
        case=id_,
        fixed_bytes=same,
        why=why,
        fixed=_record_changes(a.fixed, b.fixed, _OF_FIXED),
        candidates={name: changes for name, changes in found.items() if changes},
        targets={target: changes for target, one, other in targets if (changes := dict(_launch_changes(one, other)))},
    )


def _by_target(case: CaseRecord) -> dict[str, TargetRecord]:
    return keyed(case.targets, lambda one: one.target)


def _launch_changes(a: TargetRecord, b: TargetRecord) -> Iterator[tuple[str, Changes]]:
    """Yield what differs of the launches on one target; those of candidates that one report lacks are told by these."""
    launches_a, launches_b = keyed(a.launches, lambda one: one.id), keyed(b.launches, lambda one: one.id)
    for name, one, other in both(launches_a, launches_b, ([], [])):
        changes = _record_changes(one, other, _OF_TARGET)
        if changes:
            yield name, changes


_Record = TypeVar("_Record", FixedRecord, CandidateRecord, TargetLaunch)


def _record_changes(a: _Record, b: _Record, names: Iterable[str]) -> Changes:
    # Where one report has none, as without a GPU or after a failure, there is nothing to compare.
    shared = a.resources.keys() & b.resources.keys()
    orders = getattr(a, _ORDER, ""), getattr(b, _ORDER, "")
    return differing(
        {
            **{name: (getattr(a, name), getattr(b, name)) for name in names},
            **({_ORDER: orders} if all(orders) else {}),
            **{name: (a.resources[name], b.resources[name]) for name in sorted(shared)},
        }
    )


def _matters(change: CaseChange) -> bool:
    launches = [*change.candidates.values(), *(one for found in change.targets.values() for one in found.values())]
    names = {*change.fixed, *(name for changes in launches for name in changes)}
    return change.fixed_bytes in ("changed", "not_comparable") or bool(names & {*_OF_FIXED, *_OF_CANDIDATE, _ORDER})
