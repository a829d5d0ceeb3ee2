"""Values that depend on positions alone: addresses, masks, counters; the same for every input of a case."""

from collections.abc import Sequence

from pytest_kernelqual.judge.order_ir import Operation, UnreadableError, Value, is_integer, is_pointer
from pytest_kernelqual.judge.order_memory import enclosing
from pytest_kernelqual.judge.order_ops import INDEX_OPERATIONS, MOVES, POSITIONS, REDUCTIONS, Scope, operand_axes


class Positions:
    """Tell which values of a function depend on positions alone."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """Find them all: a counter that goes round a loop is one unless something else enters it."""
        self._other: set[Value] = set()
        self._varying: dict[tuple[Value, Scope], bool] = {}
        changed = True
        while changed:
            before = len(self._other)
            for operation in operations:
                self._visit(operation)
            changed = len(self._other) != before

    def only(self, value: Value) -> bool:
        """Tell whether the value is an integer or address that depends on positions and integer arguments alone."""
        return value not in self._other and (is_integer(value.type) or is_pointer(value.type))

    def vary(self, value: Value, scope: Scope) -> bool:
        """Tell whether such a value differs along the axes of the scope, or between iterations of its loops."""
        if not scope.axes and not scope.loops:
            return False
        key = (value, scope)
        if key not in self._varying:
            self._varying[key] = False  # what goes round a loop varies only if something on the way does
            self._varying[key] = self._vary(value, scope)
        return self._varying[key]

    def constant(self, value: Value) -> bool:
        """Tell whether the value is made from constants alone."""
        operation = value.operation
        return operation is not None and (
            operation.name == "arith.constant"
            or (
                operation.name in (INDEX_OPERATIONS & MOVES) | {"arith.extsi", "arith.extui", "arith.trunci"}
                and all(self.constant(operand) for operand in operation.operands)
            )
        )

    def grid_axes(self, value: Value) -> set[int]:
        """Return the axes of the grid of which the value depends on the number of programs."""
        found: set[int] = set()
        seen: set[Value] = set()
        pending = [value]
        while pending:
            item = pending.pop()
            if item in seen:
                continue
            seen.add(item)
            operation = item.operation
            if operation is not None and operation.name == "tt.get_num_programs":
                found.add("xyz".index(operation.text.strip()))
            pending += _made_from(item)
        return found

    def carried(self, value: Value, loop: Operation) -> bool:
        """Tell whether a value inside a loop depends on data that the loop carries."""
        seen: set[Value] = set()
        pending = [value]
        arguments = loop.regions[0][0].arguments[1:]
        while pending:
            item = pending.pop()
            if item in seen:
                continue
            seen.add(item)
            if item in arguments:
                if not self.only(item):
                    return True
                continue
            operation = item.operation
            if operation is None:
                continue
            if operation.regions and operation.name not in REDUCTIONS:
                return True  # what a loop or branch inside adds is not looked into
            pending += operation.operands
        return False

    def _visit(self, operation: Operation) -> None:
        if operation.name == "scf.for":
            block = operation.regions[0][0]
            yielded = block.operations[-1].operands if operation.results else []
            bounds = any(not self.only(bound) for bound in operation.operands[:3])
            for number, result in enumerate(operation.results):
                if bounds or not (self.only(operation.operands[3 + number]) and self.only(yielded[number])):
                    self._other |= {result, block.arguments[1 + number]}
            if bounds:
                self._other.add(block.arguments[0])
        elif operation.name == "scf.if":
            for number, result in enumerate(operation.results):
                sides = [region[-1].operations[-1].operands[number] for region in operation.regions]
                if not all(map(self.only, [operation.operands[0], *sides])):
                    self._other.add(result)
        elif operation.name not in INDEX_OPERATIONS or not all(map(self.only, operation.operands)):
            self._other |= set(operation.results)

    def _vary(self, value: Value, scope: Scope) -> bool:
        operation = value.operation
        if operation is None:
            return self._argument_varies(value, scope)
        if operation.name in POSITIONS:
            return operation.name == "tt.make_range" and bool(scope.axes)
        if operation.name in {"scf.for", "scf.if"}:
            ends = [region[-1].operations[-1].operands[value.index] for region in operation.regions]
            starts = [operation.operands[3 + value.index]] if operation.name == "scf.for" else []
            return any(self.vary(item, scope) for item in (*starts, *ends))
        axes = dict(scope.axes)
        return any(
            self.vary(operand, scope.over(operand_axes(operation, position, axes)))
            for position, operand in enumerate(operation.operands)
        )

    def _argument_varies(self, value: Value, scope: Scope) -> bool:
        loop = value.block.parent if value.block is not None else None
        if loop is None or loop.name == "tt.func":
            return False
        if loop.name != "scf.for":
            raise UnreadableError("an address that a reduction computes")
        if sum(outer.name == "scf.for" for outer in enclosing(loop)) in scope.loops:
            return True
        if value.index == 0:
            return any(self.vary(bound, scope.over({})) for bound in loop.operands[:3])
        ends = loop.operands[2 + value.index], loop.regions[0][0].operations[-1].operands[value.index - 1]
        return any(self.vary(item, scope) for item in ends)


def _made_from(value: Value) -> list[Value]:
    operation = value.operation
    if operation is None:
        loop = value.block.parent if value.block is not None else None
        if loop is None or loop.name != "scf.for":
            return []
        return loop.operands[:3] if value.index == 0 else _made_from(loop.results[value.index - 1])
    ends = [region[-1].operations[-1].operands[value.index] for region in operation.regions]
    return [*operation.operands, *ends]
