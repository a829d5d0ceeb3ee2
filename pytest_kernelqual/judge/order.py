"""What a kernel computes for each stored element, and in which order: fingerprints and what differs between two."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

_ELSEWHERE = "elements lie elsewhere in registers, lanes or warps"

# Of what the operations below compute, by role.
_PLACES = {
    "address": "which elements are loaded: ",
    "lower bound": "bounds of a loop: ",
    "mask": "which elements are loaded: ",
    "upper bound": "bounds of a loop: ",
}

_SHOWN = 3
"""Differences named in words; a longer list tells nobody more."""

# Told only where nothing else differs: another count changes them too, and says it better.
_LAYOUTS = frozenset({"layout", "places of the elements"})


@dataclass(frozen=True, eq=False)
class Node:
    """One operation of a value slice, with the slices that it takes."""

    label: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[tuple[str, "Node"], ...] = ()
    """Each with its role: what the parent does with it."""
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        """Compute the digest from the parts: a slice is shared by its users, so that a tree would be too large."""
        made = hashlib.blake2b(repr((self.label, self.attributes)).encode(), digest_size=16)
        for role, child in self.children:
            made.update(role.encode() + b"\0" + child.digest)
        object.__setattr__(self, "digest", made.digest())


class Fingerprint(NamedTuple):
    """The arithmetic order of one compiled kernel; with `unknown` set, nothing can be said."""

    slices: Node | None
    unknown: str = ""
    """What could not be read."""
    grid_axes: frozenset[int] = frozenset()
    """Axes of the grid on which the order depends, so that there must be as many programs along them."""

    @property
    def digest(self) -> str:
        """Return the digest as text; empty where the order is unknown."""
        return self.slices.digest.hex() if self.slices else ""


class Order(NamedTuple):
    """How the arithmetic order of two runs compares."""

    verdict: Literal["equal", "differs", "unknown"]
    reasons: tuple[str, ...] = ()
    """What differs, or what could not be read."""


class OrderedLaunch(NamedTuple):
    """One launch, as far as its arithmetic order goes."""

    kernel: str
    fingerprint: Fingerprint
    grid: tuple[int, ...] | None
    scalars: tuple[object, ...] = ()
    """Values of the runtime arguments that are no tensors."""

    def programs(self, axes: frozenset[int]) -> list[int]:
        """Return how many programs there are along axes of the grid."""
        return [(*(self.grid or ()), 1, 1, 1)[axis] for axis in sorted(axes)]


def compare_orders(fixed: Sequence[OrderedLaunch], candidate: Sequence[OrderedLaunch]) -> Order:
    """Compare the launches of a candidate with those of the fixed launch, one by one.

    What cannot be read is unknown, also where both sides look alike.
    """
    if not fixed or not candidate:
        return Order("unknown", ("no launch of a compiled kernel was seen",))
    unknown = dict.fromkeys(
        f"{launch.kernel}: {launch.fingerprint.unknown}"
        for launch in (*fixed, *candidate)
        if launch.fingerprint.slices is None
    )
    if unknown:
        return Order("unknown", tuple(unknown)[:_SHOWN])
    if len(fixed) != len(candidate):
        return Order("differs", (f"launches {len(fixed)} -> {len(candidate)}",))
    found = dict.fromkeys(text for a, b in zip(fixed, candidate, strict=True) for text in _between(a, b))
    return Order("differs", tuple(found)[:_SHOWN]) if found else Order("equal")


def differences(a: Fingerprint, b: Fingerprint) -> list[str]:
    """Name what differs between two known fingerprints, the first few places in the order of the slices."""
    if a.slices is None or b.slices is None or a.slices.digest == b.slices.digest:
        return []
    found = dict.fromkeys(_differing(a.slices, b.slices, set()))
    told = [text for text in found if not text.endswith(_ELSEWHERE)] or list(found)
    return told[:_SHOWN]


def _between(a: OrderedLaunch, b: OrderedLaunch) -> Iterator[str]:
    if a.kernel != b.kernel:
        yield f"kernel {a.kernel} -> {b.kernel}"
        return
    yield from differences(a.fingerprint, b.fingerprint)
    if a.scalars != b.scalars:
        yield f"scalars {a.scalars} -> {b.scalars}"
    axes = a.fingerprint.grid_axes | b.fingerprint.grid_axes
    if axes and (a.grid is None or b.grid is None or a.programs(axes) != b.programs(axes)):
        yield f"the order follows the number of programs, and the grid is {a.grid} -> {b.grid}"


def _differing(a: Node, b: Node, seen: set[tuple[bytes, bytes]], where: str = "") -> Iterator[str]:
    if a.digest == b.digest or (a.digest, b.digest) in seen:
        return
    seen.add((a.digest, b.digest))
    if a.label != b.label:
        yield f"{where}{a.label} -> {b.label}"
        return
    if a.attributes != b.attributes:
        yield where + _attributes(a, b)
    if [role for role, _ in a.children] != [role for role, _ in b.children]:
        yield from (where + text for text in _roles(a, b))
        return
    for (role, left), (_, right) in zip(a.children, b.children, strict=True):
        if left.digest != right.digest and (left.label != right.label or left.label == "constant"):
            yield f"{where}{a.label}: {role} {_named(left)} -> {_named(right)}"
        else:
            yield from _differing(left, right, seen, _PLACES.get(role, where))


def _attributes(a: Node, b: Node) -> str:
    left, right = dict(a.attributes), dict(b.attributes)
    names = [name for name in {**left, **right} if left.get(name) != right.get(name)]
    shown = [name for name in names if name not in _LAYOUTS]
    if not shown:
        return f"{a.label}: {_ELSEWHERE}"
    return f"{a.label}: " + ", ".join(f"{name} {left.get(name, 'none')} -> {right.get(name, 'none')}" for name in shown)


def _roles(a: Node, b: Node) -> Iterator[str]:
    left, right = dict(a.children), dict(b.children)
    gone = [role for role in left if role not in right]
    new = [role for role in right if role not in left]
    if gone or new:
        yield f"{a.label}: {', '.join(gone) or 'nothing'} -> {', '.join(new) or 'nothing'}"
    else:
        yield f"{a.label}: {len(a.children)} parts -> {len(b.children)} parts"


def _named(node: Node) -> str:
    return dict(node.attributes).get("value", node.label)
