"""Import spec files as pytest would, and describe what they declare."""

import gc
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from pytest_kernelqual.committed.space import token
from pytest_kernelqual.errors import DeclarationError
from pytest_kernelqual.launch import KernelInfo, check_config, describe_kernel, kernel_function
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo, Described, MarkInfo, SpecInfo
from pytest_kernelqual.model.probes import derived_cases
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.spec import DECLARED, KernelSpec, duplicate_problem
from pytest_kernelqual.model.values import encodable, shown


class Loader:
    """Import each spec file once and find its specs."""

    def __init__(self, settings: Settings, *, interpreted: bool) -> None:
        """Keep how to import, and whether the Triton interpreter runs the kernels."""
        self._settings = settings
        self._interpreted = interpreted
        self._modules: dict[str, ModuleType] = {}

    def describe(self, path: str) -> Described:
        """Import the file and return its specs, in order of declaration; never raises for what the file does."""
        try:
            module = self._module(path)
        except KeyboardInterrupt:  # in the pytest process it is a person's
            raise
        except BaseException as error:  # noqa: BLE001 - a spec file may raise anything, pytest.skip() and exit() too
            return Described(module=Path(path).stem, problem=_import_problem(path, error))
        specs = [self._describe_spec(spec, module) for spec in _specs(module)]
        if not specs:
            problem = f"{path} declares no spec; decorate a builder with @kernel_spec(...) or rename the file"
            return Described(module=module.__name__, problem=problem)
        return Described(module=module.__name__, specs=specs)

    def find(self, path: str, name: str) -> KernelSpec:
        """Return the spec called `name` in the file; DeclarationError when there is none or it is wrong."""
        try:
            module = self._module(path)
        except (Exception, SystemExit) as error:  # it was described in another process, where it could be imported
            raise DeclarationError(_import_problem(path, error).partition("\n")[0]) from error
        spec = module.__dict__.get(name)
        if not isinstance(spec, KernelSpec):
            names = ", ".join(spec.name for spec in _specs(module)) or "none"
            raise DeclarationError(f"{path} has no spec {name!r}; specs: {names}")
        if spec.error:
            raise DeclarationError(spec.error)
        return spec

    def candidates(self, spec: KernelSpec) -> tuple[Config, ...]:
        """Return the candidates of a spec: as declared, or an autotuned kernel's own."""
        return _Checked.of(spec).candidates

    def space(self, spec: KernelSpec) -> str:
        """Return the selection-space token of a spec."""
        return _space(spec, _Checked.of(spec))

    def find_case(self, spec: KernelSpec, id_: str) -> Case:
        """Return the case with this id, smaller where the interpreter runs it."""
        for case in self._cases(spec):
            if case.id == id_:
                return case.under_interpreter() if self._interpreted else case
        raise DeclarationError(f"{spec.name} has no case {id_!r}; cases: {', '.join(case.id for case in spec.cases)}")

    def _cases(self, spec: KernelSpec) -> Iterator[Case]:
        yield from spec.cases
        yield from derived_cases(spec.cases, spec.probes, self.candidates(spec))

    def _module(self, path: str) -> ModuleType:
        if path not in self._modules:
            self._modules[path] = import_file(Path(path), self._settings)
            gc.freeze()  # modules stay; a collection that need not look at them costs next to nothing
        return self._modules[path]

    def _describe_spec(self, spec: KernelSpec, module: ModuleType) -> SpecInfo:
        problem = spec.error or _name_problem(spec, module)
        if problem:
            return SpecInfo(name=spec.name, line=spec.line, problem=encodable(problem))
        try:
            checked = _Checked.of(spec)
            derived = derived_cases(spec.cases, spec.probes, checked.candidates)
            return SpecInfo(
                name=spec.name,
                line=spec.line,
                doc=encodable((spec.builder.__doc__ or "").strip()),
                cases=[
                    *(self._describe_case(case, spec) for case in spec.cases),
                    *(self._describe_case(case, spec, derived=True) for case in derived),
                ],
                candidates=[self._describe_candidate(config, checked.info) for config in checked.candidates],
                notes=checked.notes,
                screen=_screen(spec.screen),
                marks=[_mark(mark) for mark in spec.marks],
                seeds=spec.seeds,
                repeats=spec.repeats,
                profiles=() if spec.profiles is None and spec.tolerance is not None else spec.profiles,
                probes=tuple(spec.probes),
                run_timeout_s=spec.run_timeout_s,
                compile_timeout_s=spec.compile_timeout_s,
                tolerance_pct=spec.tolerance_pct,
                near_best_pct=spec.near_best_pct,
                decay_pct=spec.decay_pct,
                cache=spec.cache,
                batch_invariant=spec.batch_invariant,
                require_evidence=spec.require_evidence,
                space=_space(spec, checked),
            )
        except DeclarationError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - what the spec was given may raise anything when it is looked at
            problem = f"the spec cannot be described\n{user_traceback(error)}"
        return SpecInfo(name=spec.name, line=spec.line, problem=encodable(problem))

    def _describe_case(self, case: Case, spec: KernelSpec, *, derived: bool = False) -> CaseInfo:
        ran = case.under_interpreter().axes if self._interpreted else case.axes
        return CaseInfo(
            id=case.id,
            axes=case.axes,
            key={name: case.axes[name] for name in spec.key},
            ran_as=ran if ran != case.axes else None,
            derived=derived,
        )

    def _describe_candidate(self, config: Config, info: KernelInfo | None) -> CandidateInfo:
        program = config
        if self._interpreted and info is not None:  # launch options change nothing there
            program = Config({name: value for name, value in config.items() if name not in info.launch_options})
        return CandidateInfo(id=config.id, config=dict(config), program=program.id)


class _Checked(msgspec.Struct, frozen=True):
    """A spec's candidates after they were held against its kernel."""

    candidates: tuple[Config, ...]
    info: KernelInfo | None
    notes: list[str]

    @classmethod
    def of(cls, spec: KernelSpec) -> "_Checked":
        if spec.kernel is None:
            return cls(_without_kernel(spec), None, [])
        info = describe_kernel(spec.kernel)
        candidates = spec.candidates if spec.candidates is not None else info.configs
        if not candidates:
            raise DeclarationError(f"candidates are missing: {info.name} has no configs of its own; give candidates=")
        named = [spec.fixed] if spec.fixed is not None else []
        problem = next((text for config in [*candidates, *named] if (text := check_config(info, config))), None)
        problem = problem or duplicate_problem(candidates) or _grid_problem(spec, info)
        if spec.fixed is not None and not info.configs:
            problem = (
                problem or f"fixed= is for autotuned kernels; the fixed launch of {info.name} is its real entry point"
            )
        if problem:
            raise DeclarationError(problem)
        notes = []
        if info.configs:
            fixed, how = (
                (spec.fixed, "named by the spec")
                if spec.fixed
                else (info.configs[0], "the first of its configs that pruning keeps")
            )
            notes.append(f"fixed launch of the autotuned {info.name}: {fixed.id} ({how})")
        return cls(tuple(candidates), info, notes)


def _space(spec: KernelSpec, checked: _Checked) -> str:
    """Return the selection-space token: candidates, kernel, and the builder with the launch code that it uses."""
    kernel = kernel_function(spec.kernel) if spec.kernel is not None else None
    given = (kernel, spec.builder, spec.grid, spec.exclude)
    return token(checked.candidates, [function for function in given if function is not None])


def _without_kernel(spec: KernelSpec) -> tuple[Config, ...]:
    if spec.candidates is None:
        raise DeclarationError("candidates are missing: without kernel= there are none to take; give candidates=")
    for name, value in (("grid", spec.grid), ("grid_independent", spec.grid_independent), ("fixed", spec.fixed)):
        if value:
            raise DeclarationError(
                f"{name}= needs kernel=; without a kernel the launch takes the config as its argument"
            )
    return spec.candidates


def _grid_problem(spec: KernelSpec, info: KernelInfo) -> str | None:
    unknown = [name for name in spec.grid_independent if name not in info.parameters]
    if unknown:
        known = ", ".join(info.parameters)
        return f"grid_independent names {unknown[0]!r}, which is no meta-parameter of {info.name}: {known}"
    return None


def _specs(module: ModuleType) -> list[KernelSpec]:
    """Return every spec that the module declared, shadowed ones too; imported specs of other files are not its own."""
    return DECLARED.get(module.__name__, [])


def _screen(screen: bool | str) -> str | None:  # noqa: FBT001 - the declared value
    if screen is True:
        return "declared as a search space"
    return screen or None


def _name_problem(spec: KernelSpec, module: ModuleType) -> str | None:
    """Say why the module's name does not lead to the spec, or None."""
    found = module.__dict__.get(spec.name, _MISSING)
    if found is spec:
        return None
    if found is _MISSING:
        return f"the spec {spec.name!r} of line {spec.line} is no global of its file; give it that name at module level"
    by = f"line {found.line}" if isinstance(found, KernelSpec) else shown(found)
    return f"the spec {spec.name!r} of line {spec.line} is shadowed by {by} of the same name; rename one"


_MISSING = object()

# Marks that would hide an outcome, or ask for other items than the cases.
_FORBIDDEN_MARKS = {
    "skip": "a spec is never skipped; leave it out, or rule candidates out by exclude=",
    "skipif": "a spec is never skipped; leave it out, or rule candidates out by exclude=",
    "xfail": "a spec is not expected to fail; screen= records bad candidates without failing",
    "parametrize": "cases= parametrizes a spec",
}


def _mark_info(mark: Any) -> MarkInfo:
    return MarkInfo(name=mark.name, args=list(mark.args), kwargs=dict(mark.kwargs))


def _mark(mark: Any) -> MarkInfo:
    """Return a mark as data; a `pytest.mark` object is recognised by its attributes, as pytest is not imported here."""
    try:
        info = MarkInfo(name=mark) if isinstance(mark, str) else _mark_info(mark)
        # What cannot be sent to the pytest process is found here, and not when all specs of the file are sent.
        info = msgspec.json.decode(msgspec.json.encode(info), type=MarkInfo)
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
        raise DeclarationError(
            f"mark {shown(mark)} must be a name or a pytest.mark object with plain arguments"
        ) from None
    if not info.name or info.name.startswith("_"):
        raise DeclarationError(f"mark {shown(mark)} has no name that pytest takes; it must not begin with '_'")
    if info.name in _FORBIDDEN_MARKS:
        raise DeclarationError(f"mark {info.name!r}: {_FORBIDDEN_MARKS[info.name]}")
    return info


def import_file(path: Path, settings: Settings) -> ModuleType:
    """Import a file under the name that pytest's import mode gives it; ImportError when another file has that name."""
    root, names = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    if settings.import_mode == "importlib":
        return _import_by_location(path, root, names, Path(settings.root_dir))
    if settings.import_mode == "prepend" and sys.path[:1] != [str(root)]:
        sys.path.insert(0, str(root))
    elif str(root) not in sys.path:
        sys.path.append(str(root))
    name = ".".join(names)
    if name not in sys.modules:
        DECLARED.pop(name, None)  # of an import that failed
    return _same(importlib.import_module(name), path)


def _import_by_location(path: Path, root: Path, names: list[str], root_dir: Path) -> ModuleType:
    """Import a file without touching `sys.path`: in its package, or as a module named by its place."""
    if len(names) == 1:
        place = path.relative_to(root_dir) if path.is_relative_to(root_dir) else path.relative_to(path.anchor)
        return _load(".".join(part.replace(".", "_") for part in place.with_suffix("").parts), path)
    for depth in range(1, len(names)):
        _load(".".join(names[:depth]), root.joinpath(*names[:depth], "__init__.py"))
    return _load(".".join(names), path)


def _load(name: str, path: Path) -> ModuleType:
    """Return the module called `name`, executing the file unless that was done."""
    if name in sys.modules:
        return _same(sys.modules[name], path)
    DECLARED.pop(name, None)  # of an import that failed
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _same(module: ModuleType, path: Path) -> ModuleType:
    """Return the module if it was made of the file; ImportError otherwise."""
    found = getattr(module, "__file__", None)
    if found is None or not path.samefile(found):
        raise ImportError(
            f"{module.__name__} is {found}, not {path}: two files of one name; rename one or add __init__.py"
        )
    return module


def _import_problem(path: str, error: BaseException) -> str:
    """Tell in the first line what happened, and below it where in the user's code."""
    told = traceback.format_exception_only(error)[-1].strip()
    return encodable(f"cannot import {path}: {told.splitlines()[0]}\n{user_traceback(error)}")


def user_traceback(error: BaseException) -> str:
    """Return the traceback without the frames of the tool and of the import system."""
    first = error.__traceback__
    while first is not None and _ours(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    return encodable("".join(traceback.format_exception(type(error), error, first)).rstrip())


def _ours(filename: str) -> bool:
    return filename.startswith(("<frozen importlib", str(Path(__file__).parent))) or "importlib" in Path(filename).parts
