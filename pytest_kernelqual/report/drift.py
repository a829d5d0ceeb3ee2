"""What changed between two reports of one tree, such as before and after a compiler upgrade."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    DeviceDescriptor,
    Document,
    Environment,
    FixedRecord,
)

COMPARISON_SCHEMA = "kernelqual/toolchain-comparison/1"

Pair = tuple[Any, Any]
"""A value of report A and that of report B."""
Changes = dict[str, Pair]
"""What differs, by name."""
Bytes = Literal["same", "changed", "not_comparable", "unknown"]

_T = TypeVar("_T")

_DEVICE = ("kind", "name", "architecture", "compute_units")
_RUN = ("driver", "runtime", "torch", "triton", "python", "kernelqual", "seed", "seeds", "repeats")
_OF_FIXED = ("outcome", "config", "batch_invariant")
_OF_CANDIDATE = ("outcome", "evidence", "batch_invariant")
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
    """`outcome`, `config`, `batch_invariant`, and the digest of the arithmetic `order` where both reports have one."""
    candidates: dict[str, Changes] = field(default_factory=dict)
    """By id: `outcome`, `evidence`, `batch_invariant`, `order` as above, and resources such as `registers`."""


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
    """Kernels, cases and candidates that report B lacks."""
    only_in_b: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Tell whether anything but the toolchain and resources differs, or could not be compared."""
        return bool(self.problems or self.only_in_a or self.only_in_b) or any(map(_matters, self.cases))


def compare(a: Document, b: Document) -> Comparison:
    """Return what differs, in the order of node ids; swapping the reports swaps every pair."""
    apart = _not_comparable(a.environment, b.environment)
    kernels_a, kernels_b = _keyed(a.kernels, lambda one: one.nodeid), _keyed(b.kernels, lambda one: one.nodeid)
    only: tuple[list[str], list[str]] = ([], [])
    problems: dict[str, Pair] = {}
    counts: dict[str, int] = {}
    changes = []
    for name, kernel_a, kernel_b in _both(kernels_a, kernels_b, only):
        if kernel_a.problem != kernel_b.problem:
            problems[name] = (kernel_a.problem, kernel_b.problem)
        cases = _both(_keyed(kernel_a.cases, _id), _keyed(kernel_b.cases, _id), only, f"{name} ")
        for id_, case_a, case_b in cases:
            change = _case(case_a, case_b, apart, nodeid=name, id_=id_, only=only)
            counts[change.fixed_bytes] = counts.get(change.fixed_bytes, 0) + 1
            if change.fixed_bytes in ("changed", "not_comparable") or change.fixed or change.candidates:
                changes.append(change)
    return Comparison(
        digests=(a.digest, b.digest),
        environment=_environment_changes(a.environment, b.environment),
        fixed_bytes=counts,
        cases=changes,
        problems=problems,
        only_in_a=only[0],
        only_in_b=only[1],
    )


def _case(
    a: CaseRecord, b: CaseRecord, apart: str, *, nodeid: str, id_: str, only: tuple[list[str], list[str]]
) -> CaseChange:
    same, why = _bytes(a, b, apart)
    candidates = _both(_keyed(a.candidates, _id), _keyed(b.candidates, _id), only, f"{nodeid} {id_} ")
    found = {name: _record_changes(one, other, _OF_CANDIDATE) for name, one, other in candidates}
    return CaseChange(
        nodeid=nodeid,
        case=id_,
        fixed_bytes=same,
        why=why,
        fixed=_record_changes(a.fixed, b.fixed, _OF_FIXED),
        candidates={name: changes for name, changes in found.items() if changes},
    )


def _bytes(a: CaseRecord, b: CaseRecord, apart: str) -> tuple[Bytes, str]:
    """Tell whether the fixed launch gave the same bytes, and why that cannot be told."""
    if a.fixed.output == b.fixed.output:
        return ("unknown", "") if a.fixed.output is None else ("same", "")
    if a.fixed.output is None or b.fixed.output is None:
        return "not_comparable", "one of the reports has no output of the fixed launch"
    inputs = (a.fixed.inputs, b.fixed.inputs) if a.fixed.inputs and b.fixed.inputs else (a.inputs, b.inputs)
    if inputs[0] != inputs[1]:
        return "not_comparable", "the inputs are others"
    return ("not_comparable", apart) if apart else ("changed", "")


def _not_comparable(a: Environment | None, b: Environment | None) -> str:
    """Say why no bytes of the two runs can be compared; empty where they can."""
    if a is None or b is None:
        return "a report does not tell on which device it ran"
    differing = [
        name for name in ("kind", "name", "architecture") if getattr(a.device, name) != getattr(b.device, name)
    ]
    return "the reports are of other devices" if differing else ""


def _environment_changes(a: Environment | None, b: Environment | None) -> Changes:
    blank = Environment(device=DeviceDescriptor(kind="interpreter", name="", architecture=""))
    one, other = a or blank, b or blank
    devices = {f"device.{name}": (getattr(one.device, name), getattr(other.device, name)) for name in _DEVICE}
    return _differing({**devices, **{name: (getattr(one, name), getattr(other, name)) for name in _RUN}})


def _record_changes(
    a: FixedRecord | CandidateRecord, b: FixedRecord | CandidateRecord, names: Iterable[str]
) -> Changes:
    resources_a, resources_b = getattr(a, "resources", {}), getattr(b, "resources", {})
    # Where one report has none, as without a GPU or after a failure, there is nothing to compare.
    shared = resources_a.keys() & resources_b.keys()
    known = [_ORDER] if a.order and b.order else []
    return _differing(
        {
            **{name: (getattr(a, name), getattr(b, name)) for name in (*names, *known)},
            **{name: (resources_a[name], resources_b[name]) for name in sorted(shared)},
        }
    )


def _differing(pairs: Changes) -> Changes:
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _id(record: CaseRecord | CandidateRecord) -> str:
    return record.id


def _keyed(items: Iterable[_T], name: Callable[[_T], str]) -> dict[str, _T]:
    """Return items by name; one that occurs again, as in no report of a real run, gets a number."""
    found: dict[str, _T] = {}
    for item in items:
        key, number = name(item), 2
        while key in found:
            key, number = f"{name(item)} ({number})", number + 1
        found[key] = item
    return found


def _both(
    a: Mapping[str, _T], b: Mapping[str, _T], only: tuple[list[str], list[str]], prefix: str = ""
) -> Iterator[tuple[str, _T, _T]]:
    """Yield what both have, by name; note in `only` what one alone has."""
    for name in sorted(a.keys() | b.keys()):
        if name in a and name in b:
            yield name, a[name], b[name]
        else:
            only[0 if name in a else 1].append(prefix + name)


def _matters(change: CaseChange) -> bool:
    names = {*change.fixed, *(name for changes in change.candidates.values() for name in changes)}
    return change.fixed_bytes in ("changed", "not_comparable") or bool(names & {*_OF_FIXED, *_OF_CANDIDATE, _ORDER})
