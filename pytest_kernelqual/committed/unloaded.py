"""Modules by their files alone: whether what functions import is loaded yet depends on what ran before."""

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import resolve_name
from typing import Any, NamedTuple

from pytest_kernelqual.committed import syntax


class ModuleFile(NamedTuple):
    """A module, which is not imported for it."""

    name: str
    path: str
    """Empty for a folder without `__init__.py`."""
    folders: Sequence[str] | None
    """Where its submodules are; None where it is no package."""

    @property
    def package(self) -> str:
        """Return what relative imports start from."""
        return self.name if self.folders is not None else self.name.rpartition(".")[0]

    @property
    def namespace(self) -> Mapping[str, Any]:
        """Return what the module's globals say of where it is."""
        package = {} if self.folders is None else {"__path__": self.folders}
        return {"__name__": self.name, "__file__": self.path or None, "__package__": self.package, **package}

    @property
    def tree(self) -> ast.Module | None:
        """Return its syntax tree, or None where its source cannot be read."""
        return syntax.module_tree(self.namespace) if self.path else None


class Imported(NamedTuple):
    """What one import statement binds to one name."""

    bound: str
    module: str
    """Its full name."""
    name: str
    """What is taken from the module; empty for the module itself."""


def find(name: str) -> ModuleFile | None:
    """Return where a module is, or None where there is no such file; nothing is imported, parents neither."""
    module = sys.modules.get(name)
    if module is not None:
        path, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
        return ModuleFile(name, path or "", None if folders is None else [*folders]) if path or folders else None
    parent, _, _ = name.rpartition(".")
    above = find(parent) if parent else None
    if parent and (above is None or above.folders is None):
        return None
    folders = above.folders if above is not None else None
    for finder in sys.meta_path:
        with suppress(Exception):  # whatever foreign finders raise; then the next one is asked
            spec = finder.find_spec(name, folders)
            if spec is not None:
                inside = spec.submodule_search_locations
                path = (spec.origin or "") if spec.has_location else ""
                return ModuleFile(name, path, None if inside is None else [*inside]) if path or inside else None
    return None


def bindings(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[Imported]:
    """Yield what a statement in a module of a package binds; `*` stands for all that the other module has."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            top = alias.name.partition(".")[0]
            yield Imported(alias.asname or top, alias.name if alias.asname else top, "")
        return
    try:
        module = resolve_name("." * statement.level + (statement.module or ""), package)
    except ImportError:
        return
    for alias in statement.names:
        yield Imported(alias.asname or alias.name, module, alias.name)
