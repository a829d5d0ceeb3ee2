"""Spec files as ordinary pytest collectors, described by the device process and never imported here."""

import fnmatch
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from pytest_kernelqual.hooks.fixtures import Declaration, Qualification
from pytest_kernelqual.hooks.planning import make_plan, narrowed_by
from pytest_kernelqual.hooks.run import TARGET, Declared, Run, Target
from pytest_kernelqual.model.messages import MarkInfo, SpecInfo


class SpecClass(pytest.Class):
    """One spec: a class of test functions made for it."""

    def funcnamefilter(self, name: str) -> bool:
        """Collect our own functions whatever `python_functions` says."""
        return name.startswith("test_")


class SpecFile(pytest.Module):
    """A spec file; its module object is made of what the device process described."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Yield a class for each spec, or one failing item for a file that declares none."""
        collection = self.config.pluginmanager.getplugin("kernelqual-collection")
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        self.obj = module
        for class_ in collection.classes(self.path, module.__name__):
            setattr(module, class_.__name__, class_)
            yield SpecClass.from_parent(self, name=class_.__name__)


class Broken(Struct, frozen=True):
    """Why a hand-written test cannot have its case."""

    problem: str


class Collection:
    """Hooks of collection."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        """Keep the run."""
        self._config = config
        self._run = run
        self._patterns: list[str] = config.getini("kernelqual_files")
        self._names: dict[str, Path] = {}
        self._nodeids: list[str] = []

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Collect spec files our own way."""
        if any(fnmatch.fnmatch(module_path.name, pattern) for pattern in self._patterns):
            module: pytest.Module = SpecFile.from_parent(parent, path=module_path)
            return module
        return None

    def classes(self, path: Path, module: str) -> Iterator[type]:
        """Yield the test classes of a spec file."""
        described = self._run.describe(path)
        if described.problem:
            broken = SpecInfo(name=path.stem, line=1, problem=described.problem)
            yield _class("declaration", Declared(str(path), broken, 0), module)
        seen: set[str] = set()
        for position, spec in enumerate(described.specs):
            first = self._names.setdefault(spec.name, path)
            declared = Declared(str(path), spec, position)
            if first != path and not spec.problem:
                where = self._relative(first)
                problem = f"two specs are called {spec.name!r}: here and in {where}; rename one"
                declared = Declared(str(path), SpecInfo(name=spec.name, line=spec.line, problem=problem), position)
            # A shadowed spec has the name of the one that shadows it, and must be an item of its own.
            name = spec.name if spec.name not in seen else f"{spec.name}_line{spec.line}"
            if spec.problem and any(other.name == spec.name and not other.problem for other in described.specs):
                name = f"{spec.name}_line{spec.line}"
            seen.add(name)
            yield _class(name, declared, module)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test of ours one item per case."""
        if "kernel_case" not in metafunc.fixturenames:
            return
        own: Declared | None = getattr(metafunc.cls, "kernelqual_declared", None)
        marker = metafunc.definition.get_closest_marker("kernelqual")
        if own is None and marker is None:
            return
        declared = own or self._marked(marker, metafunc.definition)
        if isinstance(declared, Broken):
            metafunc.parametrize("kernel_case", [declared], ids=["declaration"], indirect=True)
            return
        targets = [Target(declared, case) for case in declared.spec.cases]
        metafunc.parametrize("kernel_case", targets, ids=[case.id for case in declared.spec.cases], indirect=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep qualification items only, and note them before anything else narrows the run."""
        ours = [item for item in items if item.getparent(SpecFile) or item.get_closest_marker("kernelqual")]
        others = [item for item in items if item not in ours]
        if others:
            config.hook.pytest_deselected(items=others)
        items[:] = ours
        for item in ours:
            target = self._target(item)
            if target is not None:
                item.stash[TARGET] = target
            if config.pluginmanager.hasplugin("rerunfailures"):
                item.add_marker(pytest.mark.flaky(reruns=0))
        self._nodeids = [item.nodeid for item in ours]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write down what is to be run, in declared order."""
        if self._config.option.collectonly or _controls_workers(self._config):
            return
        because = narrowed_by(
            self._config,
            default_paths=self._run.default_paths,
            selected=len(session.items),
            declared=len(self._nodeids),
        )
        self._run.plan = make_plan(session.items, self._nodeids, because)
        self._run.journal.plan(self._run.plan)

    def pytest_report_collectionfinish(self, items: list[pytest.Item]) -> str | None:
        """Say what the kernels will run on."""
        if not items or _controls_workers(self._config) or self._config.option.collectonly:
            return None
        kind = self._run.device.hello().kind
        if kind == "interpreter":
            return "kernelqual: no GPU is used: the Triton interpreter checks bytes and semantics; nothing is timed"
        return f"kernelqual: kernels run on {kind}"

    def pytest_unconfigure(self) -> None:
        """End the device."""
        self._run.close()

    def _target(self, item: pytest.Item) -> Target | None:
        callspec = getattr(item, "callspec", None)
        given = callspec.params.get("kernel_case") if callspec is not None else None
        if isinstance(given, Target):
            return given
        declared = getattr(getattr(item, "cls", None), "kernelqual_declared", None)
        return Target(declared, None) if declared is not None else None

    def _marked(self, marker: pytest.Mark | None, definition: Any) -> Declared | Broken:
        """Return the spec that a hand-written test's marker names, by object or "path::name"."""
        spec: Any = marker.args[0] if marker is not None and marker.args else None
        if isinstance(spec, str) and spec.count("::") == 1:
            file, name = spec.split("::")
            beside = Path(definition.path).parent / file
            path = beside if beside.is_file() else self._config.rootpath / file
        elif hasattr(spec, "builder") and hasattr(spec, "name"):
            path, name = Path(spec.path), spec.name
        else:
            return Broken(f'the marker kernelqual got {spec!r}; give a spec object or "path/qual_file.py::spec_name"')
        if not path.is_file():
            return Broken(f"the marker kernelqual names {spec!r}, and there is no file {path}")
        described = self._run.describe(path)
        if described.problem:
            return Broken(described.problem)
        for position, info in enumerate(described.specs):
            if info.name == name:
                return Broken(info.problem) if info.problem else Declared(str(path), info, position)
        names = ", ".join(info.name for info in described.specs)
        return Broken(f"the marker kernelqual names the spec {name!r}, and {path.name} has: {names or 'none'}")

    def _relative(self, path: Path) -> str:
        root = self._config.rootpath
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _class(name: str, declared: Declared, module: str) -> type:
    """Make the test class of a spec; its functions are placed on the spec's line."""
    at = _placed(declared.path, declared.spec.line, name)
    body: dict[str, Any] = {"kernelqual_declared": declared, "place_as": at, "__module__": module}
    body["__doc__"] = declared.spec.doc or None
    if declared.spec.problem:
        body["test_declaration"] = _clone(Declaration.test_declaration, at)
    else:
        body["test_candidates"] = _clone(Qualification.test_candidates, at)
        body["pytestmark"] = [_mark(info) for info in declared.spec.marks]
    return type(name, (), body)


def _mark(info: MarkInfo) -> pytest.MarkDecorator:
    mark: pytest.MarkDecorator = getattr(pytest.mark, info.name)
    return mark.with_args(*info.args, **info.kwargs) if info.args or info.kwargs else mark


def _clone(function: Callable[..., None], at: Callable[..., None]) -> Callable[..., None]:
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    made.place_as = at  # type: ignore[attr-defined]  # how pytest is told where a made function belongs
    made.__doc__ = function.__doc__
    return made


def _placed(path: str, line: int, name: str) -> Callable[..., None]:
    """Return a function whose code points at the spec, for pytest's `place_as`."""

    def here() -> None: ...

    here.__code__ = here.__code__.replace(co_filename=path, co_firstlineno=line, co_name=name)
    return here


def _controls_workers(config: pytest.Config) -> bool:
    return config.pluginmanager.hasplugin("dsession")
