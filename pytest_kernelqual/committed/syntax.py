"""Python source as what it says: the same for any layout, comments, docstrings and version of Python."""

import ast
import linecache
import symtable
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from types import CodeType
from typing import Any

Definition = ast.stmt | ast.Lambda

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Places and hints, and `ctx`, which follows from where a node stands.
_SILENT = frozenset({"ctx", "kind", "type_comment"})
_DECLARING = frozenset({"autotune", "kernel_spec"})


def dump(node: Any) -> Any:
    """Return nested lists that are equal for equal code only; fields that are absent or empty say nothing."""
    if isinstance(node, ast.Constant):
        return ["Constant", constant(node.value)]
    if isinstance(node, ast.JoinedStr):
        return ["JoinedStr", _joined(node.values)]
    if isinstance(node, ast.AST):
        fields = ((name, getattr(node, name, None)) for name in sorted(node._fields) if name not in _SILENT)
        return [type(node).__name__, *([name, dump(value)] for name, value in fields if value not in (None, []))]
    if isinstance(node, list):
        return [dump(item) for item in node if not _does_nothing(item)]
    return node if isinstance(node, str) else constant(node)


def constant(value: object) -> str:
    """Return a text of a constant that keeps types apart."""
    text = hex(value) if type(value) is int else ascii(value)  # unlike repr, hex has no limit of digits
    return f"{type(value).__name__} {text}"


def names(node: Definition) -> dict[str, set[str]]:
    """Return the names that a definition takes from outside itself, with the attributes that it reads of each."""
    return _attributes(node, {name for name in _outer_names(node) if not _is_special(name)})


def _attributes(node: Definition, of: set[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in of}
    for item in ast.walk(node):
        dotted = _dotted(item) if isinstance(item, ast.Attribute) else ""
        name, _, attributes = dotted.partition(".")
        if name in found:
            found[name].add(attributes)
    return found


def inner_imports(node: Definition) -> Iterator[tuple[ast.Import | ast.ImportFrom, dict[str, set[str]]]]:
    """Yield the import statements inside a definition, with the attributes that it reads of each name they bind."""
    for statement in ast.walk(node):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound = {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
            yield statement, _attributes(node, bound)


def knows_its_place(node: Definition) -> bool:
    """Tell whether a definition reads `__file__` or its like."""
    return any(isinstance(item, ast.Name) and _is_special(item.id) for item in ast.walk(node))


def without_declarations(node: Definition) -> Definition:
    """Return the definition without what declares candidates and cases.

    That is the configs of `@autotune(configs, ...)` and the whole of `@kernel_spec(...)`.
    """
    if not any(_called(item) in _DECLARING for item in getattr(node, "decorator_list", ())):
        return node
    copied: Any = deepcopy(node)
    copied.decorator_list = [item for item in copied.decorator_list if _called(item) != "kernel_spec"]
    for item in copied.decorator_list:
        if _called(item) == "autotune":
            item.args = item.args[1:]
            item.keywords = [keyword for keyword in item.keywords if keyword.arg != "configs"]
    made: Definition = copied
    return made


def module_tree(namespace: Mapping[str, Any]) -> ast.Module | None:
    """Return the syntax tree of the module with these globals, or None where its source cannot be read."""
    return file_tree(str(namespace.get("__file__")), namespace)


def file_tree(path: str, namespace: Mapping[str, Any]) -> ast.Module | None:
    """Return the syntax tree of a source file, or None where it cannot be read."""
    linecache.checkcache(path)
    try:
        return _parsed("".join(linecache.getlines(path, dict(namespace))))
    except (SyntaxError, ValueError):
        return None


def definitions(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return the statements of a module, outside functions and classes, that make or change a global."""
    return [statement for statement in _statements(tree.body) if name in _made_by(statement)]


@lru_cache(maxsize=64)
def state(tree: ast.Module) -> frozenset[str]:
    """Return the globals that functions of a module assign: their values depend on what ran before."""
    return frozenset(name for item in ast.walk(tree) if isinstance(item, ast.Global) for name in item.names)


def imported(tree: ast.Module, name: str) -> Iterator[tuple[ast.ImportFrom, str]]:
    """Yield the `from ... import` statements that may have brought a global, with its name there."""
    for statement in _statements(tree.body):
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if (alias.asname or alias.name) == name:
                    yield statement, alias.name
                elif alias.name == "*":
                    yield statement, name


def module_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements of a module outside functions and classes."""
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement


def located(tree: ast.Module, code: CodeType) -> list[Definition]:
    """Return the definition of a code object; several where lambdas of one line cannot be told apart."""
    if code.co_name != "<lambda>":
        found: list[Definition] = [
            item
            for item in ast.walk(tree)
            if isinstance(item, _FUNCTIONS) and item.name == code.co_name and _first_line(item) == code.co_firstlineno
        ]
        return found
    lambdas = [item for item in ast.walk(tree) if isinstance(item, ast.Lambda) and item.lineno == code.co_firstlineno]
    places = [(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None]
    inside = {item: sum(_start(item.body) <= place < _end(item.body) for place in places) for item in lambdas}
    best = max(inside.values(), default=0)
    closest = [item for item in lambdas if inside[item] == best]
    # Of a lambda inside a lambda, the inner one is the closer fit.
    return [item for item in closest if not any(other is not item and _holds(item, other) for other in closest)]


@lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    return ast.parse(source) if source else None


def _joined(values: list[ast.expr]) -> list[Any]:
    """Join neighbouring texts of an f-string, which versions of Python split differently."""
    found: list[Any] = []
    for item in values:
        text = item.value if isinstance(item, ast.Constant) else None
        if isinstance(text, str) and found and isinstance(found[-1], str):
            found[-1] += text
        elif text != "":
            found.append(text if isinstance(text, str) else dump(item))
    return [constant(item) if isinstance(item, str) else item for item in found]


def _does_nothing(node: object) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _outer_names(node: Definition) -> set[str]:
    statement = ast.Expr(node) if isinstance(node, ast.Lambda) else node
    try:
        table = symtable.symtable(ast.unparse(statement), "", "exec")
    except (SyntaxError, ValueError):  # an f-string that this version of Python cannot write back
        return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    return {item.get_name() for item in table.get_symbols() if item.is_referenced()} | set(_free(table))


def _is_special(name: str) -> bool:
    """Tell `__file__` and its like, which say where code lies, or what a version of Python adds to scopes."""
    return name.startswith("__") and name.endswith("__")


def _free(table: symtable.SymbolTable) -> Iterator[str]:
    for child in table.get_children():
        yield from (item.get_name() for item in child.get_symbols() if item.is_global())
        yield from _free(child)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _called(node: ast.expr) -> str:
    """Return the last name of what a decorator calls; empty where it calls nothing."""
    function = node.func if isinstance(node, ast.Call) else None
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the simple statements and definitions of a block and of the blocks inside its ifs, loops and tries."""
    for statement in body:
        blocks = [
            block
            for holder in [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
            for block in (getattr(holder, field, []) for field in ("body", "orelse", "finalbody"))
        ]
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)) or not any(blocks):
            yield statement
            continue
        for block in blocks:
            yield from _statements(block)


def _made_by(statement: ast.stmt) -> set[str]:
    """Return the globals that a statement binds, or changes by `X[...] = `, `X.y = ` or `X.append(...)`."""
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {_root(item) for target in statement.targets for item in _targets(target)}
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        return {_root(statement.target)}
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return {_root(statement.value.func)} if isinstance(statement.value.func, ast.Attribute) else set()
    return set()


def _targets(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List):
        for item in node.elts:
            yield from _targets(item)
    else:
        yield node


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(item.lineno for item in node.decorator_list)])


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _holds(outer: ast.Lambda, inner: ast.Lambda) -> bool:
    return _start(outer.body) <= _start(inner) and _end(inner) <= _end(outer.body)
