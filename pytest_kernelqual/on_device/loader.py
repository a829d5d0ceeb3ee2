"""Import spec files as pytest would, and describe what they declare."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from pytest_kernelqual.errors import DeclarationError
from pytest_kernelqual.launch import KernelInfo, check_config, describe_kernel
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo, Described, MarkInfo, SpecInfo
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.spec import DECLARED, KernelSpec, duplicate_problem


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
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a spec file may raise anything
            return Described(module=Path(path).stem, problem=f"cannot import {path}\n{user_traceback(error)}")
        specs = [self._describe_spec(spec, module) for spec in _specs(module)]
        if not specs:
            problem = f"{path} declares no spec; decorate a builder with @kernel_spec(...) or rename the file"
            return Described(module=module.__name__, problem=problem)
        return Described(module=module.__name__, specs=specs)

    def find(self, path: str, name: str) -> KernelSpec:
        """Return the spec called `name` in the file; DeclarationError when there is none or it is wrong."""
        module = self._module(path)
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

    def find_case(self, spec: KernelSpec, id_: str) -> Case:
        """Return the case with this id, smaller where the interpreter runs it."""
        for case in spec.cases:
            if case.id == id_:
                return case.under_interpreter() if self._interpreted else case
        raise DeclarationError(f"{spec.name} has no case {id_!r}; cases: {', '.join(case.id for case in spec.cases)}")

    def _module(self, path: str) -> ModuleType:
        if path not in self._modules:
            self._modules[path] = import_file(Path(path), self._settings)
        return self._modules[path]

    def _describe_spec(self, spec: KernelSpec, module: ModuleType) -> SpecInfo:
        shown = module.__dict__.get(spec.name)
        if shown is not spec:
            by = f"line {shown.line}" if isinstance(shown, KernelSpec) else f"a {type(shown).__name__}"
            problem = f"the spec {spec.name!r} of line {spec.line} is shadowed by {by} of the same name; rename one"
            return SpecInfo(name=spec.name, line=spec.line, problem=problem)
        if spec.error:
            return SpecInfo(name=spec.name, line=spec.line, problem=spec.error)
        try:
            checked = _Checked.of(spec)
            return SpecInfo(
                name=spec.name,
                line=spec.line,
                doc=(spec.builder.__doc__ or "").strip(),
                cases=[self._describe_case(case, spec) for case in spec.cases],
                candidates=[self._describe_candidate(config, checked.info) for config in checked.candidates],
                notes=checked.notes,
                screen=_screen(spec.screen),
                marks=[_mark(mark) for mark in spec.marks],
                seeds=spec.seeds,
                repeats=spec.repeats,
                run_timeout_s=spec.run_timeout_s,
                compile_timeout_s=spec.compile_timeout_s,
            )
        except DeclarationError as error:
            return SpecInfo(name=spec.name, line=spec.line, problem=str(error))

    def _describe_case(self, case: Case, spec: KernelSpec) -> CaseInfo:
        ran = case.under_interpreter().axes if self._interpreted else case.axes
        return CaseInfo(
            id=case.id,
            axes=case.axes,
            key={name: case.axes[name] for name in spec.key},
            ran_as=ran if ran != case.axes else None,
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
                (spec.fixed, "named by the spec") if spec.fixed else (info.configs[0], "the first of its configs")
            )
            notes.append(f"fixed launch of the autotuned {info.name}: {fixed.id} ({how})")
        return cls(tuple(candidates), info, notes)


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


def _mark(mark: Any) -> MarkInfo:
    """Return a mark as data; a `pytest.mark` object is recognised by its attributes, as pytest is not imported here."""
    if isinstance(mark, str):
        return MarkInfo(name=mark)
    try:
        info = MarkInfo(name=mark.name, args=list(mark.args), kwargs=dict(mark.kwargs))
        msgspec.json.encode(info)
    except (AttributeError, TypeError, ValueError):
        raise DeclarationError(f"mark {mark!r} must be a name or a pytest.mark object with plain arguments") from None
    return info


def import_file(path: Path, settings: Settings) -> ModuleType:
    """Import a file under the name that pytest's import mode gives it; ImportError when another file has that name."""
    package, names = path.parent, [path.stem]
    while (package / "__init__.py").is_file():
        names.insert(0, package.name)
        package = package.parent
    name = ".".join(names)
    if settings.import_mode == "importlib":
        return _import_by_location(path, name, package, settings)
    if str(package) not in sys.path:
        sys.path.insert(0 if settings.import_mode == "prepend" else len(sys.path), str(package))
    module = importlib.import_module(name)
    found = getattr(module, "__file__", None)
    if found is None or not path.samefile(found):
        raise ImportError(f"{name} is {found}, not {path}: two files of one name; rename one or add __init__.py")
    return module


def _import_by_location(path: Path, name: str, package: Path, settings: Settings) -> ModuleType:
    if str(package) not in sys.path:
        inside = path.is_relative_to(settings.root_dir)
        name = ".".join(path.relative_to(settings.root_dir).with_suffix("").parts) if inside else name
    DECLARED.pop(name, None)
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


def user_traceback(error: BaseException) -> str:
    """Return the traceback without the frames of the tool and of the import system."""
    shown = error.__traceback__
    while shown is not None and _ours(shown.tb_frame.f_code.co_filename):
        shown = shown.tb_next
    return "".join(traceback.format_exception(type(error), error, shown)).rstrip()


def _ours(filename: str) -> bool:
    return filename.startswith(("<frozen importlib", str(Path(__file__).parent))) or "importlib" in Path(filename).parts
