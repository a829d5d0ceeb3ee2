"""Orders that were read before, kept in Triton's cache beside the code that they were read of."""

from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import msgspec
from triton.runtime.cache import get_cache_manager, triton_key

from pytest_kernelqual.judge.order import Fingerprint, Node

_FILE = "kernelqual-order.json"
# What reads an order: another version of it may read another one.
_READERS = ("pytest_kernelqual.judge", "pytest_kernelqual.on_device")


class _Kept(msgspec.Struct):
    """An order as it is stored: every node once, after those that it takes."""

    nodes: list[tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]]]
    digest: str
    unknown: str
    grid_axes: list[int]


class KeptOrder:
    """The order that one kernel and option set has in Triton's cache, if it has any."""

    def __init__(self, of: object) -> None:
        """Find its place.

        Args:
            of: All that the order follows from; equal ones print alike.
        """
        key = sha256(repr((_versions(), of)).encode()).hexdigest()
        self._place = get_cache_manager(key)

    def read(self) -> Fingerprint | None:
        """Return the order; None where it was not kept, or what was kept is damaged."""
        try:
            path = self._place.get_file(_FILE)
            if path is None:
                return None
            kept = msgspec.json.decode(Path(path).read_bytes(), type=_Kept)
            found = Fingerprint(_root(kept), kept.unknown, frozenset(kept.grid_axes))
        except (OSError, ValueError, IndexError):
            return None
        return found if found.digest == kept.digest else None

    def write(self, order: Fingerprint) -> None:
        """Keep an order; where there is no room, it is read anew next time."""
        nodes = list(_nodes(order.slices))
        number = {node.digest: place for place, node in enumerate(nodes)}
        kept = _Kept(
            nodes=[
                (
                    node.label,
                    node.attributes,
                    tuple((role, number[child.digest]) for role, child in node.children),
                )
                for node in nodes
            ],
            digest=order.digest,
            unknown=order.unknown,
            grid_axes=sorted(order.grid_axes),
        )
        try:
            self._place.put(msgspec.json.encode(kept), _FILE)
        except OSError:
            return


def _root(kept: _Kept) -> Node | None:
    made: list[Node] = []
    for label, attributes, children in kept.nodes:
        made.append(Node(label, attributes, tuple((role, made[place]) for role, place in children)))
    return made[-1] if made else None


def _nodes(root: Node | None) -> list[Node]:
    """Return all nodes, each once, after those that it takes."""
    found: dict[bytes, Node] = {}
    open_ = [(root, False)] if root is not None else []
    while open_:
        node, entered = open_.pop()
        if node.digest in found:
            continue
        if entered:
            found[node.digest] = node
        else:
            open_.append((node, True))
            open_ += [(child, False) for _, child in node.children]
    return list(found.values())


@cache
def _versions() -> str:
    """Return a digest of Triton and of what reads orders."""
    made = sha256(triton_key().encode())
    for package in _READERS:
        found = find_spec(package)
        for folder in (found.submodule_search_locations or ()) if found is not None else ():
            for path in sorted(Path(folder).glob("order*.py")):
                made.update(path.read_bytes())
    return made.hexdigest()
