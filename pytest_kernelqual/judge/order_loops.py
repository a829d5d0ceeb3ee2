"""What loops carry from one iteration to the next, and what an order-free sum leaves of them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from pytest_kernelqual.judge.order import Node
from pytest_kernelqual.judge.order_ir import Block, Operation, Value, element
from pytest_kernelqual.judge.order_memory import enclosing
from pytest_kernelqual.judge.order_ops import DOTS, Scope, order_free
from pytest_kernelqual.judge.order_positions import Positions
from pytest_kernelqual.judge.order_tiles import exact_dot


class Reader(Protocol):
    """Gives the slices that a loop is made of."""

    positions: Positions
    target: str

    def value(self, value: Value, scope: Scope) -> Node:
        """Return the slice of a value."""

    def held(self, buffer: Value, block: Block, end: int, scope: Scope) -> Node:
        """Return what a buffer holds before operation `end` of a block."""

    def exact_products(self, operation: Operation, scope: Scope) -> Node:
        """Return what a dot of integers sums."""

    def layer(self) -> AbstractContextManager[None]:
        """Keep what is read inside the block for the block alone."""


class Loops:
    """Read loops of one function."""

    def __init__(self, reader: Reader) -> None:
        """Keep what reads all else."""
        self._reader = reader
        self._active: dict[Operation, list[tuple[int | Value, Scope]]] = {}
        self._recurring: set[tuple[Operation, int | Value]] = set()

    def carried(self, loop: Operation, key: int | Value, scope: Scope, *, inside: bool = False) -> Node:
        """Return the slice of what a loop carries: its last value, or inside the loop that of an iteration.

        Args:
            loop: The loop.
            key: Position among what it carries, or a buffer that it writes.
            scope: Of the value.
            inside: The value of an iteration.
        """
        depth = loop_depth(loop)
        if isinstance(key, int) and self._reader.positions.only(loop.results[key]):
            return self._recurrence(loop, key, scope)
        keys = self._active.get(loop)
        # What is combined inside the loop and carried on would be looked at along other names each time.
        within, names = replace(scope, loops=scope.loops | {depth}).renamed()
        entry, along = (key, within), ("along", " ".join(names))
        if inside and keys is not None:
            if entry not in keys:
                keys.append(entry)
            return Node("carried", (("loop", str(depth)), ("number", str(keys.index(entry))), along))
        if not inside and keys is None:
            folded = self._folded(loop, key, scope)
            if folded is not None:
                return folded
        outer = self._active.pop(loop, None)
        keys = self._active[loop] = [entry]
        with self._reader.layer():
            children = self.bounds(loop, scope)
            for carried, within in keys:  # grows while it is read
                children.append(("start", self._start(loop, carried, replace(within, loops=scope.loops))))
                children.append(("step", self._next(loop, carried, within)))
        del self._active[loop]
        if outer is not None:
            self._active[loop] = outer
        return Node("loop", (("iteration", "any" if inside else "last"), along), tuple(children))

    def _start(self, loop: Operation, key: int | Value, scope: Scope) -> Node:
        if isinstance(key, int):
            return self._reader.value(loop.operands[3 + key], scope)
        return self._reader.held(key, loop.block, loop.index, scope)

    def _next(self, loop: Operation, key: int | Value, scope: Scope) -> Node:
        block = loop.regions[0][0]
        if isinstance(key, int):
            return self._reader.value(yielded(block, key), scope)
        return self._reader.held(key, block, len(block.operations), scope)

    def _recurrence(self, loop: Operation, key: int, scope: Scope) -> Node:
        """Return how an address or offset moves on from one iteration to the next."""
        entry: tuple[Operation, int | Value] = (loop, key)
        if entry in self._recurring:
            return Node("the one before", (("loop", str(loop_depth(loop))),))
        self._recurring.add(entry)
        with self._reader.layer():
            children = [("start", self._start(loop, key, scope)), ("step", self._next(loop, key, scope))]
            if scope.strict:
                children += self.bounds(loop, scope)
        self._recurring.discard(entry)
        return Node("recurrence", (), tuple(children))

    def _folded(self, loop: Operation, key: int | Value, scope: Scope) -> Node | None:
        """Return a sum that any order gives: which iteration adds what does not matter."""
        if not isinstance(key, int):
            return None
        block = loop.regions[0][0]
        argument = block.arguments[1 + key]
        step = yielded(block, key).operation
        if step is not None and step.name == "ttng.warp_group_dot_wait":
            step = step.operands[0].operation
        if step is None or step.block is not block or step.operands.count(argument) != 1:
            return None
        added = [operand for operand in step.operands if operand is not argument]
        if any(self._reader.positions.carried(operand, loop) for operand in added):
            return None
        if step.name in DOTS and exact_dot(step) and step.operands[2] is argument:
            return fold("arith.addi", "i32", [self._start(loop, key, scope), self._reader.exact_products(step, scope)])
        if not order_free(step, self._reader.target) or len(added) != 1:
            return None
        kind = element(argument.type)
        return fold(step.name, kind, [self._start(loop, key, scope), self._reader.value(added[0], scope)])

    def bounds(self, loop: Operation, scope: Scope) -> list[tuple[str, Node]]:
        """Return how often the loop goes round, in full."""
        strict = replace(scope, axes=(), strict=True)
        roles = ("lower bound", "upper bound", "step of the counter")
        return [
            (role, self._reader.value(operand, strict)) for role, operand in zip(roles, loop.operands, strict=False)
        ]


def loop_depth(loop: Operation) -> int:
    """Return how many loops are around a loop."""
    return sum(outer.name == "scf.for" for outer in enclosing(loop))


def yielded(block: Block, position: int) -> Value:
    """Return what a block hands on at its end."""
    return block.operations[-1].operands[position]


_NEUTRAL = {"addi": ("0", "false"), "ori": ("0", "false"), "xori": ("0", "false"), "muli": ("1", "true")}


def fold(name: str, kind: str, parts: Sequence[Node]) -> Node:
    """Return a sum of parts in any order; sums of the same kind among them are parts of it."""
    label = f"{name} in any order"
    flat: list[Node] = []
    for part in parts:
        flat += [inner for _, inner in part.children] if part.label == label else [part]
    neutral = _NEUTRAL.get(name.removeprefix("arith."), ())
    flat = [part for part in flat if part.label != "constant" or dict(part.attributes)["value"] not in neutral]
    flat.sort(key=lambda part: part.digest)
    return Node(label, (("type", kind),), tuple(("part", part) for part in flat))
