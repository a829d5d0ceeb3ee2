"""Places in words that do not depend on tile sizes: addresses, masks and conditions made of positions alone.

A place is a polynomial in program numbers, places in a tile and integer arguments. A program's number times the size
of its tile and the place in that tile are one index, and so are the counter of a loop that goes on by the size of a
tile and the place in it, so that tiles of another size read the same.
"""

from collections.abc import Iterator, Mapping

from pytest_kernelqual.judge.order_ir import Function, Operation, UnreadableError, Value, shape
from pytest_kernelqual.judge.order_memory import enclosing
from pytest_kernelqual.judge.order_ops import MOVES, REDUCTIONS, operand_axes

Monomial = tuple[str, ...]
Polynomial = Mapping[Monomial, int]
Axes = Mapping[int, str]

_ONE: Monomial = ()
# Longer ones are no addresses that anybody wrote.
_MOST_TERMS = 256
_SUMS = {"arith.addi": 1, "arith.subi": -1, "tt.addptr": 1}
_SAME = frozenset({"arith.extsi", "arith.extui", "arith.index_cast", "arith.index_castui"})


class Places:
    """Tell the places of one function."""

    def __init__(self, function: Function) -> None:
        """Know arguments and loops by their numbers."""
        self._numbers = {argument: number for number, argument in enumerate(function.arguments)}
        loops = (operation for operation in function.walk() if operation.name == "scf.for")
        self._loops = {loop: number for number, loop in enumerate(loops)}
        self._known: dict[tuple[Value, tuple[tuple[int, str], ...]], Polynomial] = {}
        self._recurring: set[Value] = set()
        self._ranges: dict[str, int] = {}
        self._programs: set[str] = set()
        self._counters: dict[str, tuple[int, str]] = {}
        """Of loops that go on by a fixed step: that, and the bounds."""
        self.grid_axes: set[int] = set()
        """Along them something depends on the number of programs."""
        self.tiles: dict[str, set[int]] = {}
        """Sizes of the tiles of programs that were told of; 1 for one that stands for a single place."""
        self._named: dict[str, list[str]] = {}

    def uneven(self) -> list[str]:
        """Return the programs whose number was told to mean places in tiles of several sizes, with those sizes."""
        return [f"{program}: {sorted(sizes)}" for program, sizes in sorted(self.tiles.items()) if len(sizes) > 1]

    def told(self, value: Value) -> str:
        """Return a place in words."""
        return self._text(self._indexed(self.polynomial(value, _axes(value))))

    def apart(self, value: Value, first: Value) -> str:
        """Return how far a place is from another one, in words."""
        place, other = (self._indexed(self.polynomial(one, _axes(one))) for one in (value, first))
        return self._text(_sum(place, other, -1))

    def polynomial(self, value: Value, axes: Axes) -> Polynomial:
        """Return a place whose own axes have the names of `axes`.

        Raises:
            UnreadableError: It is too long, or a reduction makes it.
        """
        key = (value, tuple(sorted(axes.items())))
        if key not in self._known:
            found = self._polynomial(value, axes)
            if len(found) > _MOST_TERMS:
                raise UnreadableError("an address of too many terms")
            self._known[key] = found
        return self._known[key]

    def _polynomial(self, value: Value, axes: Axes) -> Polynomial:
        operation = value.operation
        if operation is None:
            return self._entering(value, axes)
        name = operation.name
        if name in MOVES and "allow_reorder" in operation.text:
            raise UnreadableError("an address that is reshaped in any order")
        if name in MOVES | _SAME:
            return self._operand(operation, 0, axes)
        if name in _SUMS:
            return _sum(self._operand(operation, 0, axes), self._operand(operation, 1, axes), _SUMS[name])
        if name in {"arith.muli", "arith.shli"}:
            return self._multiplied(operation, value, axes)
        if name == "arith.constant":
            return _constant(operation)
        return _sum({(self._name(operation, value, axes),): 1}, _begun(operation))

    def _multiplied(self, operation: Operation, value: Value, axes: Axes) -> Polynomial:
        left, right = self._operand(operation, 0, axes), self._operand(operation, 1, axes)
        if operation.name == "arith.muli":
            return _product(left, right)
        if set(right) <= {_ONE}:
            return _product(left, {_ONE: 1 << right.get(_ONE, 0)})
        return {(self._made(operation, value, axes),): 1}

    def _name(self, operation: Operation, value: Value, axes: Axes) -> str:
        if operation.name == "tt.make_range":
            start, end = _ends(operation)
            name = f"place on {axes.get(0, 'no axis')} of {end - start}"
            self._ranges[name] = end - start
            return name
        if operation.name in {"tt.get_program_id", "tt.get_num_programs"}:
            axis = "xyz".index(operation.text.split()[0])
            if operation.name == "tt.get_num_programs":
                self.grid_axes.add(axis)
                return f"programs {axis}"
            self._programs.add(f"program {axis}")
            return f"program {axis}"
        if operation.name == "scf.for":
            return self._carried(operation, value.index, axes)
        return self._made(operation, value, axes)

    def _operand(self, operation: Operation, position: int, axes: Axes) -> Polynomial:
        return self.polynomial(operation.operands[position], operand_axes(operation, position, dict(axes)))

    def _made(self, operation: Operation, value: Value, axes: Axes) -> str:
        """Return what another operation makes of places."""
        if operation.regions and operation.name != "scf.if":
            raise UnreadableError(f"an address that {operation.name} makes")
        if operation.name == "scf.if":
            ends = [
                self.polynomial(region[-1].operations[-1].operands[value.index], axes) for region in operation.regions
            ]
            parts = [self.polynomial(operation.operands[0], {}), *ends]
        else:
            parts = [self._operand(operation, position, axes) for position in range(len(operation.operands))]
        said = " ".join(operation.text.replace("%", " ").replace(",", " ").split())
        inside = "; ".join(self._text(self._indexed(part)) for part in parts)
        return f"{operation.name}#{value.index} {said}({inside})"

    def _entering(self, value: Value, axes: Axes) -> Polynomial:
        if value in self._numbers:
            return {(f"argument {self._numbers[value]}",): 1}
        loop = value.block.parent if value.block is not None else None
        if loop is None or loop.name != "scf.for" or loop.name in REDUCTIONS:
            raise UnreadableError("an address that enters a block of unstructured control flow")
        if value.index:
            return {(self._carried(loop, value.index - 1, axes),): 1}
        bounds = self._bounds(loop)
        name = f"counter of loop {self._loops[loop]} ({bounds})"
        step = self.polynomial(loop.operands[2], {})
        if set(step) == {_ONE}:
            self._counters[name] = step[_ONE], bounds.rpartition(";")[0]
        return {(name,): 1}

    def _bounds(self, loop: Operation) -> str:
        return "; ".join(self._text(self._indexed(self.polynomial(bound, {}))) for bound in loop.operands[:3])

    def _carried(self, loop: Operation, number: int, axes: Axes) -> str:
        """Return what a loop carries on, by where it starts and how it moves."""
        inside = loop.regions[0][0].arguments[1 + number]
        if inside in self._recurring:
            return f"the one before in loop {self._loops[loop]}"
        self._recurring.add(inside)
        known, self._known = self._known, {}  # what is read meanwhile holds "the one before"
        try:
            ends = (loop.operands[3 + number], loop.regions[0][0].operations[-1].operands[number])
            start, step = (self._text(self._indexed(self.polynomial(end, axes))) for end in ends)
            bounds = self._bounds(loop)
        finally:
            self._known = known
            self._recurring.discard(inside)
        return f"carried by loop {self._loops[loop]} ({bounds}) from ({start}) by ({step})"

    def _indexed(self, place: Polynomial) -> Polynomial:
        """Join each program's number, and each loop's counter, with the place in its tile."""
        joined = place
        for program in sorted(self._programs):
            for tile, size in self._ranges.items():
                found = _joined(joined, program, tile, size, f"{self._index(program, _axis(tile))} of {size}")
                if found is not None:
                    joined = found
                    self.tiles.setdefault(program, set()).add(size)
                    break
        for counter, (step, bounds) in self._counters.items():
            for tile, size in self._ranges.items():
                name = f"index by {counter.partition(' (')[0]} ({bounds}) on {_axis(tile)}"
                found = _joined(joined, counter, tile, 1, name) if step == size else None
                if found is not None:
                    joined = found
                    break
        return joined

    def _index(self, program: str, axis: str) -> str:
        """Name the index of a program's tile along an axis; nearly always it has one."""
        named = self._named.setdefault(program, [])
        if axis and axis not in named:
            named.append(axis)
        number = named.index(axis) if axis else 0
        return f"index by {program}" + (f", axis {number}" if number else "")

    def _text(self, place: Polynomial) -> str:
        """Put a place into words; the number of a program alone is the index of a tile of one place."""
        names = sorted({name for term in place for name in term})
        for program in sorted(self._programs):
            sizes: dict[str, list[str]] = {}
            for name in names:
                if name == program:
                    self.tiles.setdefault(program, set()).add(1)
                if name == program or name.startswith(f"index by {program}"):
                    index = self._index(program, "") if name == program else name.partition(" of ")[0]
                    sizes.setdefault(index, []).append(name)
            for index, (name, *others) in sizes.items():
                if not others:
                    place = {_renamed(term, name, index): count for term, count in place.items()}
        return " + ".join(_term(term, count) for term, count in sorted(place.items())) or "0"


def exclusive(one: Operation, other: Operation) -> bool:
    """Tell whether two operations are on different sides of a branch, so that a program runs one of them at most."""
    sides = {id(condition): holds for condition, holds in conditions(one)}
    return any(sides.get(id(condition), holds) != holds for condition, holds in conditions(other))


def conditions(operation: Operation) -> Iterator[tuple[Value, bool]]:
    """Yield the conditions of the branches around an operation, with the side that it is on."""
    inside = operation
    for outer in enclosing(operation):
        if outer.name == "scf.if":
            yield outer.operands[0], any(inside.block is block for block in outer.regions[0])
        inside = outer


def _joined(place: Polynomial, one: str, tile: str, times: int, name: str) -> Polynomial | None:
    """Return a place in which `one`, counted so many times, and the place in a tile are an index; None where not."""
    of_one, of_tile = _cofactor(place, one), _cofactor(place, tile)
    if not of_one or of_one != _product(of_tile, {_ONE: times}):
        return None
    rest = {term: count for term, count in place.items() if one not in term and tile not in term}
    return _sum(rest, _product(of_tile, {(name,): 1}))


def _renamed(names: Monomial, old: str, new: str) -> Monomial:
    return tuple(sorted(new if name == old else name for name in names))


def _axis(tile: str) -> str:
    return tile.split(" of ", maxsplit=1)[0].removeprefix("place on ")


def _axes(value: Value) -> Axes:
    return {axis: f"axis {axis}" for axis in range(len(shape(value.type)))}


def _ends(operation: Operation) -> tuple[int, int]:
    return int(operation.attribute("start") or 0), int(operation.attribute("end") or 0)


def _begun(operation: Operation) -> Polynomial:
    """Return where a range begins, if not at 0."""
    start = _ends(operation)[0] if operation.name == "tt.make_range" else 0
    return {_ONE: start} if start else {}


def _constant(operation: Operation) -> Polynomial:
    text = operation.text.removeprefix("dense<").removesuffix(">")
    if text in {"true", "false"}:
        return {_ONE: 1} if text == "true" else {}
    try:
        return {_ONE: int(text)} if int(text) else {}
    except ValueError:
        return {(f"constant {text}",): 1}


def _sum(left: Polynomial, right: Polynomial, factor: int = 1) -> Polynomial:
    total = dict(left)
    for term, count in right.items():
        total[term] = total.get(term, 0) + factor * count
        if not total[term]:
            del total[term]
    return total


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    total: Polynomial = {}
    if len(left) * len(right) > _MOST_TERMS:
        raise UnreadableError("an address of too many terms")
    for one, times in left.items():
        total = _sum(total, {tuple(sorted(one + other)): times * count for other, count in right.items()})
    return total


def _term(names: Monomial, count: int) -> str:
    factors = [str(count)] if not names or abs(count) != 1 else []
    return ("-" if names and count == -1 else "") + " * ".join([*factors, *names])


def _cofactor(place: Polynomial, name: str) -> Polynomial:
    """Return what a name is multiplied by, where it is not squared."""
    found: dict[Monomial, int] = {}
    for term, count in place.items():
        if term.count(name) == 1:
            rest = list(term)
            rest.remove(name)
            found[tuple(rest)] = count
        elif name in term:
            return {}
    return found
