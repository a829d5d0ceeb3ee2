"""Two reports, record by record: what belongs together, and what of it can be compared."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, DeviceDescriptor, Environment, KernelRecord

Pair = tuple[Any, Any]
"""A value of report A and that of report B."""
Changes = dict[str, Pair]
"""What differs, by name."""
Bytes = Literal["same", "changed", "not_comparable", "unknown"]

_T = TypeVar("_T")

_DEVICE = ("kind", "name", "architecture", "compute_units")
_RUN = ("driver", "runtime", "torch", "triton", "python", "kernelqual", "seed", "seeds", "repeats")


def fixed_bytes(a: CaseRecord, b: CaseRecord, apart: str) -> tuple[Bytes, str]:
    """Tell whether the fixed launch gave the same bytes, and why that cannot be told."""
    if a.fixed.output == b.fixed.output:
        return ("unknown", "") if a.fixed.output is None else ("same", "")
    if a.fixed.output is None or b.fixed.output is None:
        return "not_comparable", "one of the reports has no output of the fixed launch"
    inputs = (a.fixed.inputs, b.fixed.inputs) if a.fixed.inputs and b.fixed.inputs else (a.inputs, b.inputs)
    if inputs[0] != inputs[1]:
        return "not_comparable", "the inputs are others"
    return ("not_comparable", apart) if apart else ("changed", "")


def other_devices(a: Environment | None, b: Environment | None) -> str:
    """Say why no bytes of the two runs can be compared; empty where they can."""
    if a is None or b is None:
        return "a report does not tell on which device it ran"
    names = [name for name in ("kind", "name", "architecture") if getattr(a.device, name) != getattr(b.device, name)]
    return "the reports are of other devices" if names else ""


def environment_changes(a: Environment | None, b: Environment | None) -> Changes:
    """Return what differs of device, versions and effort."""
    blank = Environment(device=DeviceDescriptor(kind="interpreter", name="", architecture=""))
    one, other = a or blank, b or blank
    devices = {f"device.{name}": (getattr(one.device, name), getattr(other.device, name)) for name in _DEVICE}
    return differing({**devices, **{name: (getattr(one, name), getattr(other, name)) for name in _RUN}})


def differing(pairs: Changes) -> Changes:
    """Return the pairs of two values."""
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def id_of_record(record: CaseRecord | CandidateRecord) -> str:
    """Return the id by which the record is found in the other report."""
    return record.id


def keyed(items: Iterable[_T], name: Callable[[_T], str]) -> dict[str, _T]:
    """Return items by name; one that occurs again, as in no report of a real run, gets a number."""
    found: dict[str, _T] = {}
    for item in items:
        key, number = name(item), 2
        while key in found:
            key, number = f"{name(item)} ({number})", number + 1
        found[key] = item
    return found


def both(
    a: Mapping[str, _T], b: Mapping[str, _T], only: tuple[list[str], list[str]], prefix: str = ""
) -> Iterator[tuple[str, _T, _T]]:
    """Yield what both have, by name; note in `only` what one alone has."""
    for name in sorted(a.keys() | b.keys()):
        if name in a and name in b:
            yield name, a[name], b[name]
        else:
            only[0 if name in a else 1].append(prefix + name)


def kernel_pairs(
    a: Sequence[KernelRecord], b: Sequence[KernelRecord]
) -> list[tuple[KernelRecord | None, KernelRecord | None]]:
    """Return kernels that belong together, as HEAD declares them, then those that it lacks.

    They are found by node id, and one that moved to another file by its name.
    """
    before, after = keyed(a, lambda one: one.nodeid), keyed(b, lambda one: one.nodeid)
    lost = [kernel for nodeid, kernel in before.items() if nodeid not in after]
    new = [kernel for nodeid, kernel in after.items() if nodeid not in before]
    moved = {id(two): one for one, two in _moved(lost, new)}
    pairs: list[tuple[KernelRecord | None, KernelRecord | None]] = [
        (before.get(nodeid) or moved.get(id(kernel)), kernel) for nodeid, kernel in after.items()
    ]
    found = {id(one) for one in moved.values()}
    return [*pairs, *((kernel, None) for kernel in lost if id(kernel) not in found)]


def _moved(lost: Sequence[KernelRecord], new: Sequence[KernelRecord]) -> Iterator[tuple[KernelRecord, KernelRecord]]:
    named: dict[tuple[str, bool], tuple[list[KernelRecord], list[KernelRecord]]] = {}
    for side, kernels in enumerate((lost, new)):
        for kernel in kernels:
            named.setdefault((kernel.kernel, is_file(kernel)), ([], []))[side].append(kernel)
    for one, other in named.values():
        if len(one) == len(other) == 1:
            yield one[0], other[0]


def spec_file(kernel: KernelRecord) -> str:
    """Return the path of the file that a kernel is declared in."""
    return kernel.nodeid.partition("::")[0]


def is_file(kernel: KernelRecord) -> bool:
    """Tell whether a record stands for what is wrong with a committed file as a whole."""
    return kernel.nodeid.endswith("::file") and not kernel.cases
