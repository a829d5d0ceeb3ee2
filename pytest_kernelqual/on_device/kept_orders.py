"""Arithmetic orders that were read before."""

from functools import cache
from pathlib import Path

import msgspec

from pytest_kernelqual import judge
from pytest_kernelqual.judge.order import Fingerprint, Node
from pytest_kernelqual.on_device.kept import Kept, source_digest


class _Stored(msgspec.Struct):
    """An order as it is stored: every node once, after those that it takes."""

    nodes: list[tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]]]
    digest: str
    unknown: str
    grid_axes: list[int]


class KeptOrder:
    """The order of one kernel and option set."""

    def __init__(self, *of: object) -> None:
        """Find its place; `of` is all that the order follows from, Triton and its reader aside."""
        self._kept = Kept("order", order_reader(), *of)

    def read(self) -> Fingerprint | None:
        """Return the order; None where it was not kept, or what was kept is damaged."""
        try:
            stored = msgspec.json.decode(self._kept.read() or b"", type=_Stored)
            found = Fingerprint(_root(stored), stored.unknown, frozenset(stored.grid_axes))
        except (ValueError, IndexError):
            return None
        return found if found.digest == stored.digest and bool(found.digest) != bool(found.unknown) else None

    def write(self, order: Fingerprint) -> None:
        """Keep an order."""
        nodes = _nodes(order.slices)
        places = {node.digest: place for place, node in enumerate(nodes)}
        stored = _Stored(
            nodes=[
                (node.label, node.attributes, tuple((role, places[child.digest]) for role, child in node.children))
                for node in nodes
            ],
            digest=order.digest,
            unknown=order.unknown,
            grid_axes=sorted(order.grid_axes),
        )
        self._kept.write(msgspec.json.encode(stored))


def _root(stored: _Stored) -> Node | None:
    made: list[Node] = []
    for label, attributes, children in stored.nodes:
        made.append(Node(label, attributes, tuple((role, made[place]) for role, place in children)))
    return made[-1] if made else None


def _nodes(root: Node | None) -> list[Node]:
    """Return all nodes, each once, after those that it takes."""
    found: dict[bytes, Node] = {}
    waiting = [(root, False)] if root is not None else []
    while waiting:
        node, entered = waiting.pop()
        if node.digest in found:
            continue
        if entered:
            found[node.digest] = node
        else:
            waiting.append((node, True))
            waiting += [(child, False) for _, child in node.children]
    return list(found.values())


@cache
def order_reader() -> str:
    """Return a digest of the code that reads orders."""
    files = [*Path(judge.__file__ or "").parent.glob("order*.py"), Path(__file__).with_name("order.py")]
    return source_digest(*sorted(files))
