"""The selection-space token: changes with anything that the choice of a config depended on, and with nothing else.

It covers the candidates and the source of the kernel and of its launch, with the functions, classes and globals
that they use, as far as those belong to the project.
What is installed (torch, triton, the standard library) counts by name.
A constant counts by its value where the source alone gives it, else by the source that computes it: the token is
the same on every machine, with a device or without.
`@kernel_spec(...)` and the configs of `@autotune` do not count: candidates are given, and cases are no part of it.
Imports inside functions are followed by the source of the modules' files, loaded or not.
What is found by `getattr` or `importlib` is not followed.
"""

import ast
import builtins
import enum
import json
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.util import resolve_name
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pytest_kernelqual.committed import syntax, unloaded
from pytest_kernelqual.committed.unloaded import Imported, ModuleFile
from pytest_kernelqual.errors import DeclarationError
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.values import shown

_BUILTINS = "__builtins__"
_PART = "part "
_NO_CLOSURE: Mapping[str, Any] = {}
_TOOL = __name__.partition(".")[0]
_LIBRARIES = {"torch", "triton"}
_MOST_WRAPPERS = 16


def token(candidates: Sequence[Config], functions: Sequence[Callable[..., Any]]) -> str:
    """Return `sha256:` over a candidate set, whose order is irrelevant, and functions with what they use.

    Raises:
        DeclarationError: The source of a function cannot be read.
    """
    configs = sorted({json.dumps(dict(config), sort_keys=True) for config in candidates})
    source = _Source()
    try:
        roots = [source.root(function) for function in functions]
        parts = source.finish()
    except RecursionError as error:
        raise DeclarationError("the source of the kernel or its launch is nested too deeply to be hashed") from error
    text = json.dumps([configs, roots, parts], separators=(",", ":"))
    return f"sha256:{sha256(text.encode('ascii')).hexdigest()}"


@dataclass(frozen=True)
class _Part:
    """Statements that are hashed, and where their names are looked up."""

    nodes: Sequence[syntax.Definition]
    namespace: Mapping[str, Any]
    closure: Mapping[str, Any] = field(default_factory=dict)
    file: ModuleFile | None = None
    """Set where names are looked up in the source of a module, whose namespace may not be there."""


class _Source:
    """The parts that roots lead to, numbered as they are found, so that cycles end."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._own: set[str] = set()
        self._kept: list[object] = []  # objects whose id stands in a number, kept alive

    def root(self, function: Callable[..., Any]) -> str:
        plain = _plain(function)
        if plain is None:
            raise DeclarationError(f"{shown(function)} is no Python function, so its source cannot be hashed; pass one")
        self._own.add(_top(plain.__globals__))
        told = self._function(plain)
        if told is None:
            name, path = plain.__qualname__, plain.__code__.co_filename
            raise DeclarationError(f"the source of {name} cannot be read from {path!r}; define it in an unchanged file")
        return told

    def finish(self) -> list[Any]:
        """Return every part as plain lists; parts are appended while names are looked up."""
        told: list[Any] = []
        for part in self._parts:
            nodes = [syntax.without_declarations(node) for node in part.nodes]
            wanted: dict[str, set[str]] = {}
            for node in nodes:
                for name, attributes in syntax.names(node).items():
                    wanted.setdefault(name, set()).update(attributes)
            used = self._used(part, wanted) if part.file is None else self._used_of_file(part.file, wanted)
            inside = self._inside(nodes, str(part.namespace.get("__package__") or ""))
            told.append([[syntax.dump(node) for node in nodes], used, *([inside] if inside else [])])
        return told

    def _inside(self, nodes: Sequence[syntax.Definition], package: str) -> list[list[str]]:
        """Return what imports inside functions lead to, as far as it is part of the project."""
        used = {}
        for node in nodes:
            for statement, wanted in syntax.inner_imports(node):
                for one in unloaded.bindings(statement, package):
                    for attributes in sorted(wanted[one.bound] or {""}):
                        used[".".join(filter(None, [one.bound, attributes]))] = self._taken(one, attributes)
        return [[name, used[name]] for name in sorted(used) if used[name].startswith(_PART)]

    def _used_of_file(self, file: ModuleFile, wanted: Mapping[str, set[str]]) -> list[list[str]]:
        used = {}
        for name in sorted(wanted):
            for attributes in sorted(wanted[name] or {""}):
                used[".".join(filter(None, [name, attributes]))] = self._of_file(file, name, attributes)
        return [[name, used[name]] for name in used]

    def _of_file(self, file: ModuleFile, name: str, attributes: str, above: tuple[object, ...] = ()) -> str:
        """Follow a global of a module of the project, by its source."""
        tree = file.tree
        if tree is None or (file.name, name) in above:
            return "unbound"
        nodes = syntax.definitions(tree, name)
        if nodes:
            part = _Part(nodes, file.namespace, _NO_CLOSURE, file)
            return self._number((file.name, file.path, name), part, file)
        above = (*above, (file.name, name))
        named = ""
        for one in (one for item in syntax.module_imports(tree) for one in unloaded.bindings(item, file.package)):
            if one.bound in (name, "*"):
                told = self._taken(one._replace(name=name) if one.bound == "*" else one, attributes, above)
                if told.startswith(_PART):
                    return told
                named = named or (told if one.bound == name else "")
        return named or ("builtin" if hasattr(builtins, name) else "unbound")

    def _taken(self, one: Imported, attributes: str, above: tuple[object, ...] = ()) -> str:
        """Follow what an import binds, and a dotted name from there on."""
        dotted = ".".join(filter(None, [one.name, attributes]))
        file = unloaded.find(one.module)
        if file is None or self._outside(file.namespace):
            return f"{one.module}.{one.name}" if one.name else f"module {one.module}"
        name, _, rest = dotted.partition(".")
        told = self._of_file(file, name, rest, above) if name else "module"
        inner = f"{file.name}.{name}"
        if told == "unbound" and unloaded.find(inner) is not None:
            return self._taken(Imported(name, inner, ""), rest, above)
        return told

    def _used(self, part: _Part, wanted: Mapping[str, set[str]]) -> list[list[str]]:
        used = {}
        for name in sorted(wanted):
            value = part.closure.get(name, part.namespace.get(name))
            if isinstance(value, ModuleType) and not self._outside(vars(value)):
                for attributes in sorted(wanted[name]):
                    used[f"{name}.{attributes}"] = self._attribute(value, attributes)
            elif name in part.closure:
                used[name] = self._cell(value)
            else:
                used[name] = self._global(part.namespace, name)
        return [[name, used[name]] for name in used]

    def _attribute(self, value: ModuleType, attributes: str) -> str:
        """Follow a dotted name from a module of the project to what it leads to there."""
        name, _, rest = attributes.partition(".")
        inner = vars(value).get(name)
        if rest and isinstance(inner, ModuleType) and not self._outside(vars(inner)):
            return self._attribute(inner, rest)
        return self._global(vars(value), name)

    def _global(self, namespace: Mapping[str, Any], name: str) -> str:
        if name not in namespace:
            return "builtin" if name in _builtins(namespace) else "unbound"
        value = namespace[name]
        if isinstance(value, ModuleType):
            return f"module {value.__name__}" if self._outside(vars(value)) else "module"
        tree = syntax.module_tree(namespace)
        simple = _simple(value)
        if simple is not None and self._constant(namespace, name):
            return simple
        if tree is not None:
            nodes = syntax.definitions(tree, name)
            if nodes:
                return self._number((id(namespace), name), _Part(nodes, namespace, _NO_CLOSURE), namespace)
            for statement, original in syntax.imported(tree, name):
                told = self._imported(statement, original, namespace)
                if told is not None:
                    return told
        return self._cell(value)

    def _imported(self, statement: ast.ImportFrom, name: str, namespace: Mapping[str, Any]) -> str | None:
        """Follow `from module import name` where the module is loaded and has the name."""
        module = _imported_from(statement, name, namespace)
        if module is None:
            return None
        return f"{module.__name__}.{name}" if self._outside(vars(module)) else self._global(vars(module), name)

    def _constant(self, namespace: Mapping[str, Any], name: str, above: tuple[str, ...] = ()) -> bool:
        """Tell whether the source alone gives a global its value, whatever the machine, environment and run."""
        tree = syntax.module_tree(namespace)
        if tree is None:
            return True
        nodes = syntax.definitions(tree, name)
        if name in syntax.state(tree) or len(nodes) > 1 or name in above or any(map(syntax.knows_its_place, nodes)):
            return False
        if not nodes:
            found = ((_imported_from(*item, namespace), item[1]) for item in syntax.imported(tree, name))
            module, original = next((pair for pair in found if pair[0]), (None, ""))
            return (
                module is None or self._outside(vars(module)) or self._constant(vars(module), original, (*above, name))
            )
        return all(
            (inner not in namespace and inner in _builtins(namespace))
            or (_simple(namespace.get(inner, _Empty)) is not None and self._constant(namespace, inner, (*above, name)))
            for inner in syntax.names(nodes[0])
        )

    def _cell(self, value: object) -> str:
        """Describe a value that no statement of a module makes."""
        simple = _simple(value)
        if simple is not None:
            return simple
        plain = _plain(value)
        if plain is not None and not self._outside(plain.__globals__):
            return self._function(plain) or f"function {plain.__qualname__}"
        named = plain or (value if isinstance(value, type) else type(value))
        return f"{type(value).__name__} {named.__qualname__}"

    def _function(self, function: FunctionType) -> str | None:
        tree = syntax.file_tree(function.__code__.co_filename, function.__globals__)
        nodes = syntax.located(tree, function.__code__) if tree is not None else []
        closure = dict(zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=True))
        part = _Part(nodes, function.__globals__, closure)
        return self._number((id(function),), part, function) if nodes else None

    def _number(self, identity: tuple[object, ...], part: _Part, keep: object) -> str:
        if identity not in self._numbers:
            self._numbers[identity] = len(self._parts)
            self._parts.append(part)
            self._kept.append(keep)
        return f"{_PART}{self._numbers[identity]}"

    def _outside(self, namespace: Mapping[str, Any]) -> bool:
        """Tell whether a module is installed rather than part of the project."""
        name, path = str(namespace.get("__name__")), namespace.get("__file__")
        top = _top(namespace)
        if top in self._own or name == "__main__":
            return False
        if top == _TOOL or (not path and "__path__" not in namespace):
            return True
        if not path:
            return False  # a folder without __init__.py holds modules, which are asked one by one
        above = name.count(".") + (Path(path).name == "__init__.py")
        return _installed(Path(path).absolute(), above)


def _imported_from(statement: ast.ImportFrom, name: str, namespace: Mapping[str, Any]) -> ModuleType | None:
    """Return the module that a statement imports from, where it is loaded and has the name."""
    try:
        package = str(namespace.get("__package__") or "")
        full = resolve_name("." * statement.level + (statement.module or ""), package)
    except ImportError:
        return None
    module = sys.modules.get(full)
    return module if module is not None and name in vars(module) else None


class _Empty:
    """Stands for a closure variable without a value."""


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _Empty()


def _top(namespace: Mapping[str, Any]) -> str:
    return str(namespace.get("__name__")).partition(".")[0]


def _builtins(namespace: Mapping[str, Any]) -> Mapping[str, Any]:
    found = namespace.get(_BUILTINS, {})
    return vars(found) if isinstance(found, ModuleType) else found


@cache
def _installed(file: Path, above: int) -> bool:
    """Tell whether a file lies in the standard library or beside what an installer left."""
    if any(file.is_relative_to(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")):
        return True
    folder = file.parents[min(above, len(file.parents) - 1)]
    return folder.name in {"site-packages", "dist-packages"} or any(folder.glob("*.dist-info"))


def _plain(value: Any) -> FunctionType | None:
    """Return the function inside a method, or inside what triton and functools wrap it in."""
    for _ in range(_MOST_WRAPPERS):
        if isinstance(value, FunctionType):
            return value
        if isinstance(value, MethodType):
            value = value.__func__
            continue
        own = {} if isinstance(value, type | ModuleType) else getattr(value, "__dict__", {})
        value = next((own[name] for name in ("fn", "__wrapped__") if name in own), None)
    return None


def _simple(value: Any) -> str | None:
    """Return a text of a value that cannot change, or None."""
    kind = type(value)
    if kind is str and Path(value).is_absolute():
        return None  # it may follow from where the project lies
    if value is None or value is Ellipsis or kind in (bool, int, float, complex, str, bytes):
        return syntax.constant(value)
    if kind in (tuple, frozenset):
        return _simple_items(value)
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name} {_simple(value.value)}"
    return _simple_of_library(value) if kind.__module__.partition(".")[0] in _LIBRARIES else None


def _simple_items(value: tuple[Any, ...] | frozenset[Any]) -> str | None:
    items = [told for item in value if (told := _simple(item)) is not None]
    if len(items) < len(value):
        return None
    return json.dumps([type(value).__name__, *(items if isinstance(value, tuple) else sorted(items))])


def _simple_of_library(value: Any) -> str | None:
    """Describe what kernels take for numbers and dtypes."""
    name = type(value).__name__
    if name == "constexpr":
        told = _simple(value.value)
        return None if told is None else f"constexpr {told}"
    return f"dtype {value}" if name == "dtype" else None
