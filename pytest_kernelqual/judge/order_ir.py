"""The printed IR of one kernel as operations and values, without Triton."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache


class UnreadableError(Exception):
    """The IR holds what is not understood; the message says what."""


@dataclass(eq=False)
class Block:
    """Operations in order, the values that enter with them, and where they stand."""

    parent: "Operation | None"
    arguments: list["Value"] = field(default_factory=list)
    operations: list["Operation"] = field(default_factory=list)


@dataclass(eq=False)
class Operation:
    """One operation; `text` is what stands between its name and its types, `types` the types as printed."""

    name: str
    block: Block
    operands: list["Value"]
    text: str
    types: list[str]
    arrow: str = ""
    """`->`, `to` or nothing: what stands between types of operands and of results."""
    results: list["Value"] = field(default_factory=list)
    regions: list[list[Block]] = field(default_factory=list)
    index: int = 0
    """Position in the block."""

    def attribute(self, name: str) -> str | None:
        """Return the value of an attribute such as `axis = 1 : i32`, without its type."""
        found = re.search(rf"\b{name} = (array<i32: [^>]*>|[^,}}>]+?)(?: : [\w]+)?(?=[,}}>]|$)", self.text)
        return found.group(1).strip() if found else None


@dataclass(eq=False)
class Value:
    """What one operation makes, or what enters a block."""

    type: str
    index: int
    operation: Operation | None = None
    block: Block | None = None
    users: list[Operation] = field(default_factory=list)


@dataclass(eq=False)
class Function:
    """The kernel: its arguments, its blocks, and the names of layouts."""

    arguments: list[Value]
    blocks: list[Block]
    layouts: dict[str, str]

    def walk(self) -> Iterator[Operation]:
        """Yield every operation, an outer one before those inside it."""
        yield from _walk(self.blocks)


@lru_cache(maxsize=4096)
def shape(type_text: str) -> tuple[int, ...]:
    """Return the shape of a tensor or buffer type; empty for a scalar."""
    found = re.match(r"(?:tensor|!ttg\.memdesc|!tt\.tensordesc<tensor)<((?:\d+x)+)", type_text)
    return tuple(int(size) for size in found.group(1).split("x")[:-1]) if found else ()


@lru_cache(maxsize=4096)
def element(type_text: str) -> str:
    """Return the element type: `f32`, `i1`, `!tt.ptr<bf16>`."""
    inner = re.match(r"(?:tensor|!ttg\.memdesc)<(.*)>$", type_text)
    return re.sub(r"^(?:\d+x)+", "", split_top(inner.group(1))[0]) if inner else type_text


@lru_cache(maxsize=4096)
def is_integer(type_text: str) -> bool:
    """Tell whether the elements are integers or Booleans."""
    return re.fullmatch(r"i\d+|index", element(type_text)) is not None


def is_pointer(type_text: str) -> bool:
    """Tell whether the elements are addresses, or the value describes a tensor in memory."""
    return element(type_text).startswith(("!tt.ptr", "!tt.tensordesc"))


def addresses(operands: Iterable[Value]) -> list[Value]:
    """Return the operands of a load or store that say where it is: pointers and offsets."""
    return [item for item in operands if is_pointer(item.type) or element(item.type) in {"i32", "i64"}]


def split_top(text: str, separator: str = ",") -> list[str]:
    """Split at separators that stand outside all brackets."""
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        if text.startswith("->", position) and separator != "->":
            position += 2
            continue
        if text[position] == '"':
            position = _string_end(text, position)
            continue
        if depth == 0 and text.startswith(separator, position):
            parts.append(text[start:position].strip())
            position += len(separator)
            start = position
            continue
        depth += (text[position] in "<({[") - (text[position] in ">)}]")
        position += 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def parse(text: str) -> Function:
    """Read one printed module that holds one function.

    Raises:
        UnreadableError: It has no function or several, or is not printed as expected.
    """
    return _Parser(text).function()


_NAME = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_RESULTS = re.compile(r"^((?:%[\w$.\-]+(?::\d+)?(?:, )?)+) = ")
_OPERATION = re.compile(r'^"?([a-z_][\w.]*)"?(.*)$')
_RESULT_IS_FIRST = frozenset({"tt.addptr"})


class _Parser:
    def __init__(self, text: str) -> None:
        self.layouts: dict[str, str] = {}
        self.scopes: list[dict[str, Value]] = [{}]
        self.open: list[Operation] = []
        self.functions: list[tuple[Operation, list[Value]]] = []
        self.root = Block(None)
        for line in text.splitlines():
            self._line(re.sub(r"\s+// .*$", "", line).strip())

    def function(self) -> Function:
        if len(self.functions) != 1:
            raise UnreadableError(f"{len(self.functions)} functions instead of one: calls that are not inlined")
        operation, arguments = self.functions[0]
        found = Function(arguments, operation.regions[0], self.layouts)
        for item in found.walk():
            for operand in item.operands:
                operand.users.append(item)
        return found

    def _line(self, line: str) -> None:
        if not line or line.startswith(("#loc", "//")):
            return
        if line.startswith("#"):
            name, _, value = line.partition(" = ")
            self.layouts[name] = value
        elif line.startswith("^"):
            self._block(line)
        elif line.startswith("}"):
            self._close(line)
        else:
            self._operation(line)

    def _block(self, line: str) -> None:
        region = self.open[-1].regions[-1]
        if region[-1].operations or region[-1].arguments:
            region.append(Block(self.open[-1]))
        arguments = re.match(r"\^\w+\((.*)\):$", line)
        for item in split_top(arguments.group(1)) if arguments else []:
            name, _, kind = item.partition(": ")
            self._argument(region[-1], name, kind)

    def _argument(self, block: Block, name: str, kind: str) -> Value:
        value = Value(kind.strip(), len(block.arguments), block=block)
        block.arguments.append(value)
        self.scopes[-1][name.strip()] = value
        return value

    def _enter(self, operation: Operation) -> Block:
        block = Block(operation)
        operation.regions.append([block])
        self.scopes.append({})
        return block

    def _close(self, line: str) -> None:
        operation = self.open[-1]
        self.scopes.pop()
        if line.endswith("{"):  # else, do, or the next region of a generic operation
            self._enter(operation)
            return
        for part in split_top(line.lstrip("}) "), ": "):
            if part.startswith("("):  # types of a generic operation
                self._types(operation, part)
                self._type_results(operation)
            else:
                operation.text += f" {part}"
        self.open.pop()

    def _operation(self, line: str) -> None:
        found = _RESULTS.match(line)
        names = _result_names(found.group(1)) if found else []
        body = line[found.end() :] if found else line
        opens = body.endswith("{")
        matched = _OPERATION.match(body)
        if matched is None:
            raise UnreadableError(f"the line {line[:80]!r} is not printed as expected")
        name, rest = matched.groups()
        if name.startswith("ttg.warp_specialize"):
            raise UnreadableError("warp-specialised regions")
        block = self.open[-1].regions[-1][-1] if self.open else self.root
        if name in {"module", "builtin.module", "tt.func"}:
            operation = Operation(name, block, [], rest, [])
            self.open.append(operation)
            inner = self._enter(operation)
            if name == "tt.func":
                self.functions.append((operation, self._function_arguments(inner, rest)))
            return
        operation = Operation(name, block, [], "", [], index=len(block.operations))
        block.operations.append(operation)
        rest = rest.removesuffix("({" if rest.endswith("({") else "{").strip() if opens else rest.strip()
        carried = self._head(operation, rest)
        for position, result in enumerate(names):
            operation.results.append(Value("", position, operation=operation))
            self.scopes[-1][result] = operation.results[-1]
        self._type_results(operation)
        if opens:
            self.open.append(operation)
            inner = self._enter(operation)
            for argument, kind in carried:
                self._argument(inner, argument, kind)

    def _head(self, operation: Operation, rest: str) -> list[tuple[str, str]]:
        """Read operands, text and types; return the block arguments that a loop names in its head."""
        carried: list[tuple[str, str]] = []
        if operation.name == "scf.for":
            head, _, tail = rest.partition(" -> ")
            kind = rest.rpartition(" : ")[2].strip() if " : " in rest else "index"
            induction, _, head = head.partition(" = ")
            pairs = re.search(r"iter_args\((.*)\)", head)
            named = [item.split(" = ")[0] for item in split_top(pairs.group(1))] if pairs else []
            types = split_top(_inner(tail.rpartition("  : ")[0] or tail)) if pairs else []
            carried = [(induction.strip(), kind), *zip(named, types, strict=True)]
            head = re.sub(r"(%[\w$.\-]+) = ", "", head.partition(" : ")[0])
            operation.operands = [self._value(name) for name in _NAME.findall(head)]
            operation.types, operation.arrow = types, "->"
            return carried
        parts = split_top(rest, " : ")
        operands, types_text = (" : ".join(parts[:-1]), parts[-1]) if len(parts) > 1 else (rest, "")
        if not types_text and " -> " in operands:  # scf.if %x -> (f32)
            operands, _, types_text = operands.partition(" -> ")
            types_text = "-> " + types_text
        if operation.name == "scf.while":
            raise UnreadableError("a loop whose end is computed by its body (scf.while)")
        operation.operands = [self._value(name) for name in _NAME.findall(operands)]
        operation.text = _NAME.sub("%", operands).strip()
        self._types(operation, types_text)
        return carried

    def _types(self, operation: Operation, text: str) -> None:
        if not text:
            return
        for arrow in ("->", " to "):
            sides = split_top(text, arrow)
            if len(sides) > 1 or text.startswith(arrow):
                operation.arrow = arrow.strip()
                operation.types = _type_list(sides[-1])
                operation.text += " | " + ", ".join(map(element, _type_list(sides[0]))) if len(sides) > 1 else ""
                return
        operation.types = _type_list(text)

    def _type_results(self, operation: Operation) -> None:
        for position, result in enumerate(operation.results):
            result.type = _result_type(operation, position)

    def _value(self, name: str) -> Value:
        for scope in reversed(self.scopes):
            for key in (name, name.removesuffix("#0")):
                if key in scope:
                    return scope[key]
        raise UnreadableError(f"the value {name} is used before it is made")

    def _function_arguments(self, block: Block, rest: str) -> list[Value]:
        start = rest.index("(")
        depth, end = 0, start
        for end in range(start, len(rest)):
            depth += (rest[end] == "(") - (rest[end] == ")")
            if depth == 0:
                break
        arguments = []
        for item in split_top(rest[start + 1 : end]):
            name, _, kind = item.partition(": ")
            arguments.append(self._argument(block, name, kind.partition(" {")[0]))
        return arguments


def _result_type(operation: Operation, position: int) -> str:
    if not operation.types:
        return "i1" if operation.name == "arith.constant" else ""
    types = operation.types
    if operation.arrow:
        return types[min(position, len(types) - 1)]
    if operation.name in {"arith.cmpi", "arith.cmpf"}:
        return types[-1].replace(element(types[-1]), "i1", 1)
    if operation.name == "tt.load":
        pointer = element(types[-1])
        return types[-1].replace(pointer, pointer.removeprefix("!tt.ptr<").removesuffix(">"), 1)
    if operation.name in _RESULT_IS_FIRST or operation.name.endswith("_wait"):
        return types[min(position, len(types) - 1)] if operation.name.endswith("_wait") else types[0]
    return types[-1]


def _type_list(text: str) -> list[str]:
    text = text.strip()
    return [item for side in split_top(_inner(text), " * ") for item in split_top(side)]


def _inner(text: str) -> str:
    text = text.strip()
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _result_names(text: str) -> list[str]:
    names = []
    for item in text.split(", "):
        name, _, count = item.partition(":")
        names += [f"{name}#{index}" for index in range(int(count))] if count else [name]
    return names


def _string_end(text: str, position: int) -> int:
    position += 1
    while position < len(text) and text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    return position + 1


def _walk(blocks: list[Block]) -> Iterator[Operation]:
    for block in blocks:
        for operation in block.operations:
            yield operation
            for region in operation.regions:
                yield from _walk(region)
