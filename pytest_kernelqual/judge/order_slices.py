"""Value slices: what every stored element is computed from, and in which order."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property

from pytest_kernelqual.judge.order import Node
from pytest_kernelqual.judge.order_ir import (
    Block,
    Function,
    Operation,
    UnreadableError,
    Value,
    addresses,
    element,
    is_integer,
    shape,
)
from pytest_kernelqual.judge.order_loops import Loops, fold, loop_depth, yielded
from pytest_kernelqual.judge.order_memory import Memory
from pytest_kernelqual.judge.order_ops import (
    ALLOCATIONS,
    DOTS,
    ELEMENTWISE,
    LOADS,
    MOVES,
    REDUCTIONS,
    Scope,
    operand_axes,
    order_free,
    regrouped,
)
from pytest_kernelqual.judge.order_places import Places
from pytest_kernelqual.judge.order_positions import Positions
from pytest_kernelqual.judge.order_products import Products
from pytest_kernelqual.judge.order_tiles import Layout, dot_attributes, exact_dot, reduction_attributes

POSITION = Node("a position")


class Slices:
    """Read value slices of one function."""

    def __init__(
        self,
        function: Function,
        layouts: Sequence[Layout],
        target: str,
        options: Mapping[str, object],
    ) -> None:
        """Look at the function as a whole.

        Args:
            function: Of operations that are understood.
            layouts: Of its reductions and scans, in their order.
            target: What it is compiled for.
            options: Launch options by name.
        """
        self.target = target
        self.grid_axes: set[int] = set()
        """Along them bounds of loops depend on the number of programs, or on which one it is."""
        self.arithmetic = False
        """Floats are computed, so that numeric options matter."""
        self._function = function
        self._memos: list[dict[tuple[Value, Scope], Node]] = [{}]
        self._apart: dict[Operation, str] = {}
        self._loads: dict[bytes, dict[Operation, None]] = {}
        self.places = Places(function)
        self.loops = Loops(self)
        operations = list(function.walk())
        self.positions = Positions(operations)
        self.memory = Memory(operations, function.arguments)
        fusion = options.get("enable_fp_fusion", True) is not False
        self._products = Products(function.layouts, options, target) if fusion else None
        reductions = [operation for operation in operations if operation.name in REDUCTIONS]
        if len(reductions) != len(layouts):
            raise UnreadableError(f"{len(layouts)} layouts for {len(reductions)} reductions")
        self._layouts = dict(zip(reductions, layouts, strict=True))

    def told_apart(self, root: Operation) -> "Slices | None":
        """Return slices for what an operation stores, where loads behind it read the same but for their places.

        They are told apart by how far each is from the first of its kind; None where there are none.
        """
        behind = self.memory.loads_behind(root)
        apart: dict[Operation, str] = {}
        for alike in self._loads.values():
            loads = [load for load in alike if load in behind]
            if len(loads) > 1:
                first = addresses(loads[0].operands)
                apart |= {load: "; ".join(map(self.places.apart, addresses(load.operands), first)) for load in loads}
        if not apart:
            return None
        made = copy(self)
        made.__dict__.pop("_readers", None)
        made._apart, made._memos, made.loops = apart, [{}], Loops(made)  # noqa: SLF001 - of this class
        return made

    def value(self, value: Value, scope: Scope) -> Node:
        """Return the slice of one value."""
        key = (value, scope)
        for memo in self._memos:
            if key in memo:
                return memo[key]
        made = self._value(value, scope)
        self._memos[-1][key] = made
        return made

    @contextmanager
    def layer(self) -> Iterator[None]:
        """Keep what is read inside the block for the block alone."""
        self._memos.append({})
        yield
        self._memos.pop()

    def _value(self, value: Value, scope: Scope) -> Node:
        operation = value.operation
        position = not scope.strict and self.positions.only(value) and not self.positions.constant(value)
        if position and not self.positions.vary(value, scope):
            if scope.axes or scope.loops:  # which elements are combined may follow it
                self.grid_axes |= self.positions.grid_axes(value)
            return POSITION
        if operation is None:
            return self._argument(value, scope)
        for names, read in self._readers:
            if operation.name in names:
                return read(operation, value, scope)
        return self._elementwise(operation, value, scope)

    @cached_property
    def _readers(self) -> list[tuple[Collection[str], Callable[[Operation, Value, Scope], Node]]]:
        return [
            ({"arith.constant"}, lambda operation, _value, _scope: _constant(operation)),
            (MOVES, self._moved),
            (ALLOCATIONS, lambda operation, value, scope: self.content(value, operation, scope)),
            (LOADS, lambda operation, _value, scope: self._load(operation, scope)),
            (DOTS, lambda operation, _value, scope: self._dot_of_values(operation, scope)),
            (REDUCTIONS, self._reduction),
            ({"tt.histogram"}, self._histogram),
            ({"scf.for"}, lambda operation, value, scope: self.loops.carried(operation, value.index, scope)),
            ({"scf.if"}, self._branch_result),
        ]

    def _dot_of_values(self, operation: Operation, scope: Scope) -> Node:
        parts = [("accumulator", self.value(operation.operands[2], scope))]
        parts += [("accumulate", self.value(extra, scope.over({}))) for extra in operation.operands[3:]]
        return self._dot(operation, parts, scope)

    def _branch_result(self, operation: Operation, value: Value, scope: Scope) -> Node:
        sides = [self.value(yielded(region[-1], value.index), scope) for region in operation.regions]
        return self._branch(operation, sides, scope)

    def _operands(self, operation: Operation, scope: Scope) -> list[tuple[str, Node]]:
        axes = dict(scope.axes)
        return [
            (f"operand {position}", self.value(operand, scope.over(operand_axes(operation, position, axes))))
            for position, operand in enumerate(operation.operands)
        ]

    def _elementwise(self, operation: Operation, value: Value, scope: Scope) -> Node:
        name = operation.name
        if name in ELEMENTWISE and not is_integer(value.type) and name not in {"arith.select", "tt.bitcast"}:
            self.arithmetic = True
        attributes = [("type", element(value.type)), ("attributes", _written(operation.text))]
        if name in {"tt.get_program_id", "tt.get_num_programs"}:
            self.grid_axes |= {"xyz".index(_written(operation.text))} if scope.strict else set()
        if name == "tt.make_range":
            ends = [operation.attribute(name) for name in ("start", "end")]
            attributes = [("of", scope.axes[0][1] if scope.axes else ""), ("range", f"{ends[0]} to {ends[1]}")]
        if len(operation.results) > 1:
            attributes.append(("result", str(value.index)))
        if self._products and name in {"arith.addf", "arith.subf"}:
            attributes += self._products.undecided(operation)
        operands = self._operands(operation, scope)
        if name == "arith.select":
            operands[0] = ("operand 0", self._chosen(operation.operands[0], [node for _, node in operands]))
        return Node(name, tuple(attributes), tuple(operands))

    def _chosen(self, condition: Value, nodes: Sequence[Node]) -> Node:
        """Return what chooses between slices; which elements take which matters where they are not the same."""
        chooses, one, other = nodes
        return Node(self.places.told(condition)) if chooses is POSITION and one.digest != other.digest else chooses

    def _argument(self, value: Value, scope: Scope) -> Node:
        block = value.block
        assert block is not None  # noqa: S101 - what no operation made entered with a block
        owner = block.parent
        if owner is not None and owner.name == "scf.for":
            if value.index == 0:
                bounds = () if loop_depth(owner) in scope.loops else tuple(self.loops.bounds(owner, scope))
                return Node("iteration", (("loop", str(loop_depth(owner))),), bounds)
            return self.loops.carried(owner, value.index - 1, scope, inside=True)
        if owner is not None and owner.name in REDUCTIONS:
            return Node("combined", (("number", str(value.index)),))
        if value in self._function.arguments:
            return Node(f"argument {value.index}", (("type", value.type),))
        raise UnreadableError("a value that enters a block of unstructured control flow")

    def _moved(self, operation: Operation, value: Value, scope: Scope) -> Node:
        source = operation.operands[value.index if operation.name.endswith("_wait") else 0]
        axes = dict(scope.axes)
        inner = scope.over(operand_axes(operation, operation.operands.index(source), axes))
        if operation.name != "tt.reshape" or not axes:
            return self.content(source, operation, inner)
        groups = regrouped(shape(source.type), shape(value.type))
        sizes = [
            "x".join(str(shape(side.type)[axis]) for axis in group)
            for pair in groups
            for side, group in zip((source, value), pair, strict=True)
            if any(axis in axes for axis in pair[1])
        ]
        attributes = [("sizes", " ".join(sizes))]
        if "allow_reorder" in operation.text:  # which element lands where follows the layouts
            inner = scope.over(dict.fromkeys(range(len(shape(source.type))), axes[min(axes)]))
            attributes.append(("layout", f"{self._layout(source.type)} -> {self._layout(value.type)}"))
        return Node("tt.reshape", tuple(attributes), (("operand 0", self.value(source, inner)),))

    def _layout(self, type_text: str) -> str:
        return re.sub(r"#\w+", lambda found: self._function.layouts.get(found.group(), found.group()), type_text)

    def content(self, value: Value, reader: Operation, scope: Scope) -> Node:
        """Return the slice of a value, or of what a buffer holds where `reader` reads it."""
        operation = value.operation
        if operation is None or operation.name not in ALLOCATIONS | {"ttg.memdesc_trans"}:
            return self.value(value, scope)
        if operation.name == "ttg.memdesc_trans":
            axes = operand_axes(operation, 0, dict(scope.axes))
            return self.content(operation.operands[0], reader, scope.over(axes))
        if operation.operands:
            return self.value(operation.operands[0], scope)
        self.memory.check(value)
        return self.held(value, reader.block, reader.index, scope)

    def held(self, buffer: Value, block: Block, end: int, scope: Scope) -> Node:
        """Return what a buffer holds before operation `end` of a block."""
        for operation in reversed(block.operations[:end]):
            if operation in self.memory.writers(buffer):
                return self._written(operation, buffer, scope)
            if not self.memory.written_inside(operation, buffer):
                continue
            if operation.name == "scf.for":
                return self.loops.carried(operation, buffer, scope)
            if operation.name == "scf.if":
                ends = [(region[-1], len(region[-1].operations)) for region in operation.regions]
                ends += [(block, operation.index)] * (2 - len(ends))
                return self._branch(operation, [self.held(buffer, *end_, scope) for end_ in ends], scope)
        owner = block.parent
        if owner is not None and owner.name == "scf.for" and self.memory.written_inside(owner, buffer):
            return self.loops.carried(owner, buffer, scope, inside=True)
        if owner is not None and owner.name in {"scf.for", "scf.if"}:
            return self.held(buffer, owner.block, owner.index, scope)
        return Node("unwritten")  # read, but not added: an instruction is told when to start anew

    def _written(self, operation: Operation, buffer: Value, scope: Scope) -> Node:
        self.memory.check_predicates(operation)
        if operation.name == "ttng.async_tma_copy_global_to_local":
            return self._load(operation, scope)
        if operation.name == "ttng.tc_gen5_mma":
            accumulate = self.value(operation.operands[3], scope.over({}))
            if dict(accumulate.attributes).get("value") == "false":
                return self._dot(operation, [], scope)
            held = self.held(buffer, operation.block, operation.index, scope)
            return self._dot(operation, [("accumulator", held), ("accumulate", accumulate)], scope)
        return self.value(operation.operands[0], scope)

    def _load(self, operation: Operation, scope: Scope) -> Node:
        made = self._loaded(operation, scope)
        self._loads.setdefault(made.digest, {})[operation] = None
        if operation in self._apart:
            made = Node(made.label, (*made.attributes, ("place", self._apart[operation])), made.children)
        return made

    def _loaded(self, operation: Operation, scope: Scope) -> Node:
        name = operation.name
        pointer = operation.operands[0]
        result = operation.results[0].type if operation.results else operation.operands[-3].type
        children: list[tuple[str, Node]] = []
        if name in {"tt.descriptor_load", "ttng.async_tma_copy_global_to_local"}:
            offsets = [operand for operand in operation.operands[1:] if operand.type in {"i32", "i64"}]
            axes = tuple(scope.axes)
            children += [(f"offset {number}", self.value(item, scope.over({}))) for number, item in enumerate(offsets)]
            attributes = [("type", element(result)), ("along", " ".join(named for _, named in axes))]
            return Node(f"load from {','.join(self.memory.bases(pointer))}", tuple(attributes), tuple(children))
        masks = [operand for operand in operation.operands if element(operand.type) == "i1"]
        masks = masks[:1] if element(result) != "i1" or len(operation.operands) > 1 else []
        known = {pointer, *masks}
        others = [item for item in operation.operands if item not in known and element(item.type) == element(result)]
        offsets = [item for item in operation.operands if item not in known and item not in others]
        for role, items in (("address", [pointer, *offsets]), ("mask", masks), ("value where masked", others)):
            for item in items:
                axes_of = dict(scope.axes) if shape(item.type) else {}
                children.append((role, self.value(item, scope.over(axes_of))))
        if "isVolatile" in operation.text:
            raise UnreadableError("a volatile load")
        return Node(f"load from {','.join(self.memory.bases(pointer))}", (("type", element(result)),), tuple(children))

    def _histogram(self, operation: Operation, value: Value, scope: Scope) -> Node:
        """Return what is counted; where it stands in the tile does not matter."""
        counted = [
            (f"operand {number}", self.value(item, scope.over({}))) for number, item in enumerate(operation.operands)
        ]
        return Node("tt.histogram", (("bins", str(shape(value.type)[0])),), tuple(counted))

    def _dot(self, operation: Operation, parts: list[tuple[str, Node]], scope: Scope) -> Node:
        if exact_dot(operation):
            return fold("arith.addi", "i32", [*(part for _, part in parts), self.exact_products(operation, scope)])
        self.arithmetic = True
        rank = len(shape(operation.operands[0].type))
        inner = scope.along(rank - 1, {})
        sides = self._sides(operation, inner, dict(inner.axes)[rank - 1])
        return Node("tt.dot", dot_attributes(operation, self._function.layouts), (*sides, *parts))

    def exact_products(self, operation: Operation, scope: Scope) -> Node:
        """Return what a dot of integers sums, in whatever order."""
        return Node("products", (), tuple(self._sides(operation, scope, "")))

    def _sides(self, operation: Operation, scope: Scope, summed: str) -> list[tuple[str, Node]]:
        """Return the operands of a dot; positions along the summed axis matter where it has a name."""
        left, right = operation.operands[:2]
        rank = len(shape(left.type))
        outer = {axis: named for axis, named in scope.axes if named != summed}
        batch = {axis: named for axis, named in outer.items() if axis < rank - 2}
        across = {axis: named for axis, named in outer.items() if axis != rank - 1}
        down = {**batch, **{axis: named for axis, named in outer.items() if axis == rank - 1}}
        if summed:
            across[rank - 1] = down[rank - 2] = summed
        return [
            ("left side", self.content(left, operation, scope.over(across))),
            ("right side", self.content(right, operation, scope.over(down))),
        ]

    def _reduction(self, operation: Operation, value: Value, scope: Scope) -> Node:
        axis = int(operation.attribute("axis") or 0)
        block = operation.regions[0][0]
        combine = block.operations[:-1]
        axes = operand_axes(operation, 0, dict(scope.axes))
        single = len(combine) == 1 and len(operation.operands) == 1 and set(combine[0].operands) == {*block.arguments}
        inner = scope.along(axis, {at: named for at, named in axes.items() if at != axis})
        if single and order_free(combine[0], self.target):
            kind = element(operation.operands[0].type)
            if operation.name == "tt.reduce":
                return fold(combine[0].name, kind, [self.value(operation.operands[0], scope.over(axes))])
            kept = fold(combine[0].name, kind, [self.value(operation.operands[0], inner)])
            return Node("tt.scan", (("reverse", operation.attribute("reverse") or ""),), (("combined", kept),))
        self.arithmetic = True
        children = [
            (f"operand {number}", self.value(operand, inner)) for number, operand in enumerate(operation.operands)
        ]
        with self.layer():  # what the region combines is named by number, in every reduction anew
            children.append(("combined by", self.value(yielded(block, value.index), Scope(strict=True))))
        attributes = reduction_attributes(operation, self._layouts[operation], self.target)
        if self._products and any(item.name in {"arith.addf", "arith.subf"} for item in combine):
            attributes += self._products.undecided(operation)
        return Node(f"{operation.name} axis {axis}", tuple(attributes), tuple(children))

    def _branch(self, operation: Operation, sides: list[Node], scope: Scope) -> Node:
        condition = self._chosen(operation.operands[0], [self.value(operation.operands[0], scope.over({})), *sides])
        return Node("scf.if", (), (("condition", condition), ("then", sides[0]), ("else", sides[1])))


def _constant(operation: Operation) -> Node:
    value = operation.text.removeprefix("dense<").removesuffix(">")
    return Node("constant", (("value", value), ("type", element(operation.results[0].type))))


def _written(text: str) -> str:
    """Return what an operation says of itself beside its operands."""
    return " ".join(re.sub(r"%,?|^, ", " ", text).split())
