"""Products that are added: whether a multiplication and an addition become one fused operation is decided late."""

import re
from collections.abc import Mapping

from pytest_kernelqual.judge.order_ir import Operation, Value, shape
from pytest_kernelqual.judge.order_ops import MOVES

# The compiler looks through them when it fuses.
_TRANSPARENT = frozenset({"arith.extf", "arith.negf"})

# They leave an element in the thread that has it.
_COPIES = frozenset({"tt.broadcast", "tt.expand_dims", "tt.splat"})


class Products:
    """Find additions of products of which the compiler may fuse each or not.

    A product from another iteration, branch or layout is fused where loops are unrolled and layouts agree:
    seen in compiled code for NVIDIA and AMD.
    Inside one block NVIDIA's compiler fuses every product that is added.
    AMD's also looks at how often a product is used, and has packed instructions for neighbouring elements.
    """

    def __init__(self, layouts: Mapping[str, str], options: Mapping[str, object], target: str) -> None:
        """Remember what the decision may depend on."""
        self._layouts = layouts
        self._shape = f"{options.get('num_warps')} warps, {options.get('num_stages')} stages"
        self._counts_users = not target.startswith("cuda")
        self._moves = MOVES if self._counts_users else MOVES - _COPIES

    def undecided(self, operation: Operation) -> list[tuple[str, str]]:
        """Return the attributes that an addition, or a reduction by addition, gets from its undecided products."""
        types = [operand.type for operand in operation.operands if self._is_undecided(operand, operation)]
        if self._counts_users and all(_product(operand) for operand in operation.operands):
            types = [operand.type for operand in operation.operands]
        if not types:
            return []
        sizes = ", ".join("x".join(map(str, shape(item))) or "scalar" for item in types)
        layouts = [
            re.sub(r"#\w+", lambda found: self._layouts.get(found.group(), found.group()), item) for item in types
        ]
        return [
            ("tile of a product that may be fused or not", f"{sizes} ({self._shape})"),
            ("layout", "; ".join(layouts)),
        ]

    def _is_undecided(self, operand: Value, user: Operation) -> bool:
        pending = [(operand, False)]
        seen: set[Value] = set()
        while pending:
            value, moved = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            operation = value.operation
            if operation is None:
                pending += [(item, True) for item in _entering(value)]
            elif operation.name == "arith.mulf":
                counted = self._counts_users and len(value.users) > 1
                if moved or counted or operation.block is not user.block:
                    return True
            elif operation.name in MOVES:
                pending.append((operation.operands[0], moved or operation.name in self._moves))
            elif operation.name in _TRANSPARENT:
                pending.append((operation.operands[0], moved or (self._counts_users and len(value.users) > 1)))
            elif operation.name in {"scf.for", "scf.if"}:
                ends = [region[-1].operations[-1].operands[value.index] for region in operation.regions]
                starts = [operation.operands[3 + value.index]] if operation.name == "scf.for" else []
                pending += [(item, True) for item in (*starts, *ends)]
        return False


def _product(value: Value) -> bool:
    return value.operation is not None and value.operation.name == "arith.mulf"


def _entering(value: Value) -> list[Value]:
    loop = value.block.parent if value.block is not None else None
    if loop is None or loop.name != "scf.for" or value.index == 0:
        return []
    return [loop.operands[2 + value.index], loop.regions[0][0].operations[-1].operands[value.index - 1]]
