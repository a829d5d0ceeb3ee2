"""Declaration of a kernel under qualification.

A wrong declaration never raises while its file is imported: the error is kept on the spec, which becomes one
failing item while the other specs of the file go on.
"""

import dis
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.settings import MIN_REPEATS

Builder = Callable[..., Any]
Exclude = Callable[[Config, Case], bool | str]


class Seeded(Protocol):
    """What a builder makes its inputs from; every tensor that it makes is remembered and restored before each launch.

    Every method takes `dtype` (a torch dtype or its name; "float32" for real values, "int64" for integers),
    `strides` in elements or `layout` ("row_major", "column_major": last two axes swapped in memory, "channels_last"),
    `requires_grad`, and `name`, by which reports call the tensor.
    Shapes are sequences of ints.
    """

    seed: int
    device: Any
    interpreted: bool

    def normal(self, shape: Sequence[int], *, mean: float = 0.0, std: float = 1.0, **layout: Any) -> Any:
        """Return normally distributed values."""

    def uniform(self, shape: Sequence[int], *, low: float = 0.0, high: float = 1.0, **layout: Any) -> Any:
        """Return uniformly distributed values of [low, high)."""

    def randint(self, low: int, high: int, shape: Sequence[int], **layout: Any) -> Any:
        """Return integers of [low, high)."""

    def bernoulli(self, shape: Sequence[int], *, p: float = 0.5, **layout: Any) -> Any:
        """Return true with probability p."""

    def permutation(self, n: int, **layout: Any) -> Any:
        """Return a permutation of 0 .. n-1."""

    def arange(self, n: int, **layout: Any) -> Any:
        """Return 0 .. n-1."""

    def full(self, shape: Sequence[int], value: complex, **layout: Any) -> Any:
        """Return one value everywhere."""

    def zeros(self, shape: Sequence[int], **layout: Any) -> Any:
        """Return zeros."""

    def ones(self, shape: Sequence[int], **layout: Any) -> Any:
        """Return ones."""

    def adopt(self, tensor: Any, *, name: str | None = None) -> Any:
        """Remember a tensor made otherwise, as it is now, and return it."""


@dataclass(frozen=True)
class KernelSpec:
    """One declared kernel: what to force configs onto, which configs, on which workloads."""

    name: str
    builder: Builder
    kernel: Any = None
    candidates: tuple[Config, ...] | None = None
    """None: the configs of an autotuned kernel."""
    cases: tuple[Case, ...] = ()
    key: tuple[str, ...] = ()
    fixed: Config | None = None
    grid: Any = None
    grid_independent: tuple[str, ...] = ()
    exclude: Exclude | None = None
    screen: bool | str = False
    marks: tuple[Any, ...] = ()
    seeds: int | None = None
    repeats: int | None = None
    run_timeout_s: float | None = None
    compile_timeout_s: float | None = None
    error: str | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        """Name the file of the builder."""
        return self.builder.__code__.co_filename

    @property
    def line(self) -> int:
        """Give the line of the builder, counted from 1."""
        return self.builder.__code__.co_firstlineno


# Every spec in order of declaration, by module name: a module's namespace forgets a spec that a later one shadows.
DECLARED: dict[str, list[KernelSpec]] = {}

_OPTIONS = {
    "kernel", "candidates", "cases", "key", "fixed", "grid", "grid_independent", "exclude", "screen", "marks",
    "seeds", "repeats", "run_timeout_s", "compile_timeout_s",
}  # fmt: skip


def kernel_spec(**options: Any) -> Callable[[Builder], KernelSpec]:
    """Declare a kernel for qualification; decorates the builder `(case, seeded) -> launch`.

    Args:
        **options: As listed here.
            kernel: A `@triton.jit`, `@triton.heuristics` or `@triton.autotune` kernel onto which configs are forced;
                leave out where the launch takes the config as its argument.
            candidates: Configs to qualify; left out for an autotuned kernel, its own configs.
            cases: Workloads; at least one.
            key: Names of case axes by which a committed config is chosen.
            fixed: The fixed launch of an autotuned kernel; left out, its first config.
            grid: A callable of the meta-parameters that replaces a tuple grid when a meta-parameter is forced.
            grid_independent: Meta-parameters that the tuple grid does not depend on.
            exclude: `(config, case) -> bool | str`; a true result makes the candidate `unsupported`, a string says why.
            screen: True or the reason why bad candidates are expected and only recorded.
            marks: Pytest marks, as names or `pytest.mark` objects.
            seeds, repeats: Input sets, and launches of each, instead of the options of the run.
            run_timeout_s, compile_timeout_s: Limits in seconds, instead of the settings of the run.
    """

    def declare(builder: Builder) -> KernelSpec:
        spec = _declared(builder, options)
        DECLARED.setdefault(builder.__module__, []).append(spec)
        return spec

    return declare


def _declared(builder: Builder, options: dict[str, Any]) -> KernelSpec:
    name = builder.__name__
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        near = get_close_matches(unknown[0], _OPTIONS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"options: {', '.join(sorted(_OPTIONS))}"
        return KernelSpec(name, builder, error=f"kernel_spec has no option {unknown[0]!r}; {hint}")
    problem = _problem(builder, options)
    if problem:
        return KernelSpec(name, builder, error=problem)
    given = dict(options)
    given["cases"] = tuple(options.get("cases", ()))
    given["key"] = _names(options.get("key", ()))
    given["grid_independent"] = _names(options.get("grid_independent", ()))
    given["marks"] = _sequence(options.get("marks", ()))
    if options.get("candidates") is not None:
        given["candidates"] = tuple(options["candidates"])
    return KernelSpec(name, builder, **given)


def _problem(builder: Builder, options: dict[str, Any]) -> str | None:
    """Return the first thing wrong with the declaration that can be told without the kernel."""
    checks = (
        _builder_problem(builder),
        _cases_problem(options),
        _candidates_problem(options),
        _limits_problem(options),
    )
    return next((problem for problem in checks if problem), None)


def _builder_problem(builder: Builder) -> str | None:
    parameters = list(inspect.signature(builder).parameters)
    if parameters[:2] != ["case", "seeded"] or len(parameters) > 2:  # noqa: PLR2004 - the two of the signature
        return f"the builder takes ({', '.join(parameters)}); it must take (case, seeded)"
    if inspect.isgeneratorfunction(builder) or inspect.iscoroutinefunction(builder):
        return "the builder is a generator or coroutine; it must return a launch"
    if not _returns_something(builder):
        return "the builder returns no launch; end it with `return lambda: my_op(...)`"
    return None


def _returns_something(builder: Builder) -> bool:
    """Tell whether any return statement of the builder returns other than a literal None."""
    previous = None
    for instruction in dis.get_instructions(builder):
        if instruction.opname == "RETURN_VALUE" and not (
            previous is not None and previous.opname == "LOAD_CONST" and previous.argval is None
        ):
            return True
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        previous = instruction
    return False


def _cases_problem(options: dict[str, Any]) -> str | None:
    cases = options.get("cases", ())
    if not _is_sequence(cases) or not all(isinstance(case, Case) for case in cases):
        return f"cases={cases!r} must be a list of Case objects"
    if not cases:
        return "cases is empty; declare at least one Case"
    for case in cases:
        problem: str | None = case.problem()
        if problem:
            return problem
    ids = [case.id for case in cases]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice:
        return f"two cases have the id {twice!r}; make an axis differ"
    for name in _names(options.get("key", ())):
        lacking = next((case for case in cases if name not in case.axes), None)
        if lacking is not None:
            return f"key {name!r} is not an axis of case {lacking.id!r}; axes: {', '.join(map(str, lacking.axes))}"
    return None


def _candidates_problem(options: dict[str, Any]) -> str | None:
    candidates = options.get("candidates")
    problem: str | None
    if candidates is not None:
        if not _is_sequence(candidates) or not all(isinstance(config, Config) for config in candidates):
            return f"candidates={candidates!r} must be a list of Config objects; `grid(...)` makes one"
        if not candidates:
            return "candidates is empty; an axis of grid() without values gives no configs"
    for config in [*(candidates or ()), *([options["fixed"]] if options.get("fixed") is not None else ())]:
        if not isinstance(config, Config):
            return f"fixed={config!r} must be a Config"
        problem = config.problem()
        if problem:
            return problem
    return duplicate_problem(candidates or ())


def duplicate_problem(candidates: Sequence[Config]) -> str | None:
    """Say which config occurs twice, or None."""
    seen: set[Config] = set()
    for config in candidates:
        if config in seen:
            return f"candidate {config.id} occurs twice; remove one"
        seen.add(config)
    return None


def _limits_problem(options: dict[str, Any]) -> str | None:
    for name, least in (("seeds", 1), ("repeats", MIN_REPEATS)):
        value = options.get(name)
        if value is not None and (type(value) is not int or value < least):
            return f"{name}={value!r} must be a whole number of at least {least}"
    for name in ("run_timeout_s", "compile_timeout_s"):
        value = options.get(name)
        if value is not None and (type(value) not in (int, float) or not 0 < value < float("inf")):
            return f"{name}={value!r} must be a positive number of seconds"
    for name in ("grid", "exclude"):
        if options.get(name) is not None and not callable(options[name]):
            return f"{name}={options[name]!r} must be callable"
    if not isinstance(options.get("screen", False), bool | str):
        return f"screen={options['screen']!r} must be True, False or the reason as a string"
    for name in ("key", "grid_independent"):
        value = options.get(name, ())
        if not isinstance(value, str) and not (_is_sequence(value) and all(isinstance(item, str) for item in value)):
            return f"{name}={value!r} must be a tuple of names"
    return None


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value) if _is_sequence(value) else ()


def _sequence(value: Any) -> tuple[Any, ...]:
    return tuple(value) if _is_sequence(value) else (value,)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
