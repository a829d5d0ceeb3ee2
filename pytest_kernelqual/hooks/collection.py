"""Spec files as ordinary pytest collectors, described by the device process and never imported here."""

import os
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.hooks.committed import CommittedConfigs, CommittedTests
from pytest_kernelqual.hooks.committed_files import is_committed_file
from pytest_kernelqual.hooks.committed_row import KeyTarget
from pytest_kernelqual.hooks.fixtures import Declaration, Qualification
from pytest_kernelqual.hooks.planning import PROBLEM, make_plan, narrowed_by
from pytest_kernelqual.hooks.run import TARGET, Declared, Run, Target, controls_workers
from pytest_kernelqual.hooks.spec_files import is_spec_file
from pytest_kernelqual.model.messages import MarkInfo, SpecInfo
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.model.values import shown


class SpecClass(pytest.Class):
    """One spec: a class of test functions made for it."""

    def funcnamefilter(self, name: str) -> bool:
        """Collect our own functions whatever `python_functions` says."""
        return name.startswith("test_")

    def collect(self) -> Any:
        """Return the spec's test function; what is wrong with a spec of which another one is asked for."""
        problem = self.obj.kernelqual_declared.spec.problem
        if problem and any(
            asked[1:2] not in ([], ["test_declaration"]) for asked in _asked(self) if asked[0] == self.name
        ):
            raise self.CollectError(problem)
        return super().collect()


class SpecFile(pytest.Module):
    """A spec file; its module object is made of what the device process described."""

    def _getobj(self) -> types.ModuleType:
        """Return an empty module: the file is never imported here, whoever asks."""
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        return module

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Yield a class for each spec, or one failing item for a file that declares none."""
        collection: Collection = self.config.pluginmanager.getplugin("kernelqual-collection")
        module = self.obj
        for class_ in collection.classes(self.path, module.__name__):
            problem = class_.kernelqual_declared.spec.problem
            # An id from a run in which the file was fine: "not found" alone would not tell why.
            if class_.__name__ == _OF_FILE and problem and any(asked[0] != _OF_FILE for asked in _asked(self)):
                raise self.CollectError(problem)
            setattr(module, class_.__name__, class_)
            yield SpecClass.from_parent(self, name=class_.__name__)


# The class of a file that cannot be imported or declares nothing.
_OF_FILE = "declaration"


def _asked(node: SpecFile | SpecClass) -> list[list[str]]:
    """Return the names that the command line gives within the node's file: `a.py::spec::test` gives [spec, test]."""
    folder = node.config.invocation_params.dir
    given = [argument.split("::") for argument in node.config.args]
    return [
        [names[0], *(name.partition("[")[0] for name in names[1:])]
        for path, *names in given
        if names and Path(os.path.normpath(folder / path)) == node.path
    ]


class Broken(Struct, frozen=True):
    """Why a hand-written test cannot have its case."""

    problem: str


class Collection:
    """Hooks of collection."""

    def __init__(self, config: pytest.Config, run: Run, committed: CommittedConfigs) -> None:
        """Keep the run, and what knows of committed configs."""
        self._committed = committed
        self._config = config
        self._run = run
        self._patterns: list[str] = config.getini("kernelqual_files")
        self._names: dict[str, Path] = {}
        self._declared: list[pytest.Item] = []

    def pytest_sessionstart(self) -> None:
        """Let a worker's device process start while everything else does."""
        if hasattr(self._config, "workerinput"):
            with suppress(KernelqualError):  # whoever asks it first is told
                self._run.device.begin()

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Collect spec files our own way."""
        if not self._holds_specs(module_path, parent):
            return None
        module: pytest.Module = SpecFile.from_parent(parent, path=module_path)
        return module

    def _holds_specs(self, path: Path, parent: pytest.Collector) -> bool:
        """Tell spec files by name; a file named on the command line is one unless it is a test file."""
        if is_spec_file(path, self._patterns):
            return True
        tests = [pattern for pattern in self._config.getini("python_files") if pattern not in self._patterns]
        return parent.session.isinitpath(path) and not is_spec_file(path, [*tests, "conftest.py", "__init__.py"])

    def classes(self, path: Path, module: str) -> Iterator[Any]:
        """Yield the test classes of a spec file."""
        described = self._run.describe(path)
        if described.problem:
            broken = SpecInfo(name=path.stem, line=1, problem=described.problem)
            yield _class(_OF_FILE, Declared(str(path), broken, 0), [], module)
        seen: set[str] = set()
        for position, spec in enumerate(described.specs):
            marks, problem = _marks(spec.marks)
            problem = spec.problem or problem or self._name_problem(spec.name, path)
            # A shadowed spec has the name of the one that shadows it, and must be an item of its own.
            fine = any(other.name == spec.name and not other.problem for other in described.specs)
            name = f"{spec.name}_line{spec.line}" if spec.name in seen or (spec.problem and fine) else spec.name
            seen.add(name)
            info = SpecInfo(name=spec.name, line=spec.line, problem=problem) if problem else spec
            found = Declared(str(path), info, position)
            yield _class(name, found, marks, module, with_rows=self._committed.has_rows(found))

    def _name_problem(self, name: str, path: Path) -> str:
        """Say which other file has a spec of this name; empty when none has."""
        first = self._names.setdefault(name, path)
        if first == path:
            return ""
        return f"two specs are called {name!r}: here and in {self._relative(first)}; rename one"

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test of ours one item per case."""
        own: Declared | None = getattr(metafunc.cls, "kernelqual_declared", None)
        marker = metafunc.definition.get_closest_marker("kernelqual")
        if own is not None:
            declared: Declared | Broken = own
        elif marker is not None:
            declared = self._marked(marker, metafunc.definition)
        else:
            return
        if "kernel_case" not in metafunc.fixturenames:
            # A test that asks for no case runs once; what is wrong with its marker must be told all the same.
            if marker is None or not isinstance(declared, Broken) or not (marker.args or marker.kwargs):
                return
            metafunc.fixturenames.append("kernel_case")  # as pytest asks of what is parametrized
        if isinstance(declared, Broken):
            metafunc.parametrize("kernel_case", [declared], ids=["declaration"], indirect=True)
            return
        targets = [Target(declared, case) for case in declared.spec.cases]
        metafunc.parametrize("kernel_case", targets, ids=[case.id for case in declared.spec.cases], indirect=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
        """Keep qualification items only, and note them before anything else narrows the run, be it first of all."""
        ours: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            is_ours = item.getparent(SpecFile) or item.get_closest_marker("kernelqual") or is_committed_file(item)
            (ours if is_ours else others).append(item)
        if others:
            config.hook.pytest_deselected(items=others)
        items[:] = ours
        for item in ours:
            given = self._given(item)
            if isinstance(given, Target):
                item.stash[TARGET] = given
            elif isinstance(given, Broken):
                item.stash[PROBLEM] = given.problem
            if config.pluginmanager.hasplugin("rerunfailures"):
                # In front of a marker of the test's own.
                item.add_marker(pytest.mark.flaky(reruns=0), append=False)
        self._declared = ours
        return (yield)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write down what is to be run, in declared order."""
        if self._config.option.collectonly or controls_workers(self._config):
            return
        narrowed = narrowed_by(
            self._config,
            default_paths=self._run.default_paths,
            selected=len(session.items),
            declared=len(self._declared),
        )
        self._run.plan = make_plan(session.items, self._declared, narrowed)
        self._run.journal.plan(self._run.plan)

    def pytest_report_collectionfinish(self, items: list[pytest.Item]) -> str | None:
        """Say what the kernels will run on."""
        if not items or controls_workers(self._config) or self._config.option.collectonly:
            return None
        try:
            kind = self._run.device.hello().kind
        except KernelqualError as error:  # no item will run either, and each says why
            return f"kernelqual: {error}"
        if kind == "interpreter":
            return "kernelqual: no GPU is used: the Triton interpreter checks bytes and semantics; nothing is timed"
        return f"kernelqual: kernels run on {kind}"

    def pytest_unconfigure(self) -> None:
        """End the device."""
        self._run.close()

    def _given(self, item: pytest.Item) -> Target | Broken | None:
        """Return what the item qualifies; None for a marked test that asks for no fixture of ours."""
        callspec = getattr(item, "callspec", None)
        params = callspec.params if callspec is not None else {}
        given = params.get("kernel_case")
        if isinstance(given, Target | Broken):
            return given
        row = params.get("kernelqual_key")
        if isinstance(row, KeyTarget):
            return Target(row.declared, row.cases[0], row.row)
        declared = getattr(getattr(item, "cls", None), "kernelqual_declared", None)
        return Target(declared, None) if declared is not None else None

    def _marked(self, marker: pytest.Mark, definition: Any) -> Declared | Broken:
        """Return the spec that a hand-written test's marker names, by object or "path::name"."""
        if len(marker.args) != 1 or marker.kwargs:
            given = ", ".join([*map(shown, marker.args), *(f"{name}={shown(v)}" for name, v in marker.kwargs.items())])
            return Broken(f"the marker kernelqual got ({given}); {_MARKER_USE}")
        spec: Any = marker.args[0]
        if isinstance(spec, str) and spec.count("::") == 1:
            file, name = spec.split("::")
            beside = Path(definition.path).parent / file
            path = beside if beside.is_file() else self._config.rootpath / file
        elif isinstance(spec, KernelSpec):
            path, name = Path(spec.path), spec.name
        else:
            return Broken(f"the marker kernelqual got {shown(spec)}; {_MARKER_USE}")
        if not path.is_file():
            return Broken(f"the marker kernelqual names {shown(spec)}, and there is no file {path}")
        described = self._run.describe(Path(os.path.normpath(path)))
        if described.problem:
            return Broken(described.problem)
        found = [(info, position) for position, info in enumerate(described.specs) if info.name == name]
        if not found:
            names = ", ".join(info.name for info in described.specs)
            return Broken(f"the marker kernelqual names the spec {name!r}, and {path.name} has: {names}")
        # A spec that is shadowed has the same name, and a problem.
        info, position = min(found, key=lambda pair: bool(pair[0].problem))
        return Broken(info.problem) if info.problem else Declared(str(path), info, position)

    def _relative(self, path: Path) -> str:
        root = self._config.rootpath
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


_MARKER_USE = 'give one spec, as the object or as "path/qual_file.py::spec_name"'


def _class(
    name: str, declared: Declared, marks: list[pytest.MarkDecorator], module: str, *, with_rows: bool = False
) -> Any:
    """Make the test class of a spec; its functions are placed on the spec's line."""
    at = _placed(declared.path, declared.spec.line, name)
    body: dict[str, Any] = {"kernelqual_declared": declared, "place_as": at, "__module__": module}
    body["__doc__"] = declared.spec.doc or None
    if declared.spec.problem:
        body["test_declaration"] = _clone(Declaration.test_declaration, at)
    else:
        body["test_candidates"] = _clone(Qualification.test_candidates, at)
        if with_rows:
            body["test_committed"] = _clone(CommittedTests.test_committed, at)
    body["pytestmark"] = marks
    return type(name, (), body)


def _marks(infos: list[MarkInfo]) -> tuple[list[pytest.MarkDecorator], str]:
    """Return a spec's marks, and what is wrong with the first one that pytest refuses, as under --strict-markers."""
    marks: list[pytest.MarkDecorator] = []
    for info in infos:
        try:
            mark: pytest.MarkDecorator = getattr(pytest.mark, info.name)
        except (pytest.fail.Exception, Warning) as refusal:
            return marks, f"marks= of the spec: {refusal}"
        marks.append(mark.with_args(*info.args, **info.kwargs) if info.args or info.kwargs else mark)
    return marks, ""


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
