"""Products that are added: whether a multiplication and an addition become one fused operation is decided late."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pytest_kernelqual.judge.order_ir import Operation, Value, shape
from pytest_kernelqual.judge.order_ops import MOVES

# The compiler looks through them when it fuses.
_TRANSPARENT = frozenset({"arith.extf", "arith.negf"})

# They leave an element in the thread that has it, for several elements of the result to use.
_COPIES = frozenset({"tt.broadcast", "tt.expand_dims", "tt.splat"})


class _Way(NamedTuple):
    """How a product gets to where it is added."""

    copied: bool
    """Several elements of a tile use it: how many are in one thread depends on the tile."""
    shared: bool
    """It has other users too."""
    far: bool
    """From another layout, block or iteration."""


class Products:
    """Find additions of products of which the compiler may fuse each or not.

    A product from another iteration, branch or layout is fused where loops are unrolled and layouts agree:
    seen in compiled code for NVIDIA and AMD.
    Inside one block NVIDIA's compiler fuses every product that is added; of two products the one with fewer users,
    so that a product that a row shares is fused or not by the number of elements that a thread has of the row.
    AMD's also looks at how often a single product is used, and has packed instructions for neighbouring elements.
    """

    def __init__(self, layouts: Mapping[str, str], options: Mapping[str, object], target: str) -> None:
        """Remember what the decision may depend on."""
        self._layouts = layouts
        self._shape = f"{options.get('num_warps')} warps, {options.get('num_stages')} stages"
        self._nvidia = target.startswith("cuda")

    def undecided(self, operation: Operation) -> list[tuple[str, str]]:
        """Return the attributes that an addition, or a reduction by addition, gets from its undecided products."""
        ways = [list(_ways(operand, operation)) for operand in operation.operands]
        several = len(ways) > 1
        both = all(ways) and (
            not self._nvidia or any(way.copied or (way.shared and several) for of in ways for way in of)
        )
        types = [
            operand.type
            for operand, of in zip(operation.operands, ways, strict=True)
            if both or any(way.far or ((way.shared or way.copied) and not self._nvidia) for way in of)
        ]
        if not types:
            return []
        sizes = ", ".join("x".join(map(str, shape(item))) or "scalar" for item in types)
        layouts = re.sub(r"#\w+", lambda found: self._layouts.get(found.group(), found.group()), "; ".join(types))
        return [("tile of a product that may be fused or not", f"{sizes} ({self._shape})"), ("layout", layouts)]


def _ways(operand: Value, user: Operation) -> Iterator[_Way]:
    """Yield the products that an operand may be."""
    pending = [(operand, _Way(copied=False, shared=False, far=False))]
    seen: set[Value] = set()
    while pending:
        value, way = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        operation = value.operation
        way = way._replace(shared=way.shared or len(value.users) > 1)
        if operation is None:
            pending += [(item, way._replace(far=True)) for item in _entering(value)]
        elif operation.name == "arith.mulf":
            yield way._replace(far=way.far or operation.block is not user.block)
        elif operation.name in MOVES:
            change = {"copied" if operation.name in _COPIES else "far": True}
            pending.append((operation.operands[0], way._replace(**change)))
        elif operation.name in _TRANSPARENT:
            pending.append((operation.operands[0], way))
        elif operation.name in {"scf.for", "scf.if"}:
            ends = [region[-1].operations[-1].operands[value.index] for region in operation.regions]
            starts = [operation.operands[3 + value.index]] if operation.name == "scf.for" else []
            pending += [(item, way._replace(far=True)) for item in (*starts, *ends)]


def _entering(value: Value) -> list[Value]:
    loop = value.block.parent if value.block is not None else None
    if loop is None or loop.name != "scf.for" or value.index == 0:
        return []
    return [loop.operands[2 + value.index], loop.regions[0][0].operations[-1].operands[value.index - 1]]
