"""Declaration of a kernel under qualification.

A wrong declaration never raises while its file is imported: the error is kept on the spec, which becomes one
failing item while the other specs of the file go on.
"""

import dis
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol, cast, get_args

from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.outcome import REQUIRABLE, Cache, Evidence
from pytest_kernelqual.model.probes import probes_problem, targets
from pytest_kernelqual.model.profiles import profiles_problem
from pytest_kernelqual.model.settings import MIN_REPEATS
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.model.values import encodable, is_sequence, names, sequence, shown
from pytest_kernelqual.model.workloads import cases_problem

_MOST_EFFORT = 10_000
_MOST_PERCENT = 100
_LONGEST_S = 7 * 24 * 3600.0

Builder = Callable[..., Any]
Exclude = Callable[[Config, Case], bool | str]
Oracle = Callable[[Case, Mapping[str, Any]], Any]


class Seeded(Protocol):
    """What a builder makes its inputs from; every tensor that it makes is remembered and restored before each launch.

    Every method takes `dtype` (a torch dtype or its name; "float32" for real values, "int64" for integers),
    `strides` in elements or `layout` ("row_major", "column_major": last two axes swapped in memory, "channels_last"),
    `requires_grad`, `name`, by which reports call the tensor, and `profile`, to which it keeps in every input set.
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
    profiles: tuple[str, ...] | None = None
    probes: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Names of probes, and the axes or inputs that they are about; None: all inputs."""
    run_timeout_s: float | None = None
    compile_timeout_s: float | None = None
    tolerance_pct: float | None = None
    near_best_pct: float | None = None
    decay_pct: float | None = None
    cache: Cache = "cold"
    tolerance: Tolerance | None = None
    oracle: Oracle | None = None
    oracle_tolerance: Tolerance | None = None
    batch_axis: str | None = None
    batch_invariant: bool = False
    require_evidence: Evidence | None = None
    error: str | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        """Name the file of the builder; empty where it has no code."""
        return str(getattr(_code(self.builder), "co_filename", ""))

    @property
    def line(self) -> int:
        """Give the line of the builder, counted from 1."""
        return int(getattr(_code(self.builder), "co_firstlineno", 1))


# Every spec in order of declaration, by module name: a module's namespace forgets a spec that a later one shadows.
DECLARED: dict[str, list[KernelSpec]] = {}

_PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD

_OPTIONS = {
    "kernel", "candidates", "cases", "key", "fixed", "grid", "grid_independent", "exclude", "screen", "marks",
    "seeds", "repeats", "profiles", "probes", "run_timeout_s", "compile_timeout_s", "tolerance_pct", "tolerance",
    "near_best_pct", "decay_pct", "cache", "oracle", "oracle_tolerance", "require_evidence",
    "batch_axis", "batch_invariant",
}  # fmt: skip


def kernel_spec(bare: Builder | None = None, /, **options: Any) -> Callable[[Builder], KernelSpec]:
    """Declare a kernel for qualification; decorates the builder `(case, seeded) -> launch`.

    Args:
        bare: Nothing: a builder arrives here where the parentheses were forgotten, which is an error of its spec.
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
            profiles: Profiles of further input sets, instead of the option of the run.
            probes: Other layouts of the inputs, and cases of other sizes, as names or as a dict of what they are about.
            run_timeout_s, compile_timeout_s: Limits in seconds, instead of the settings of the run.
            tolerance_pct: How much slower than the fixed launch a committed config may be, in percent.
            near_best_pct: How much slower than the best candidate it may be, in percent.
            decay_pct: How much of its stored speed-up it may lose, in percent; half of that warns.
            cache: "cold" or "warm": whether timed launches find their inputs in memory or in the L2 cache.
            require_evidence: The weakest evidence with which its candidates pass, instead of the run's.
            oracle: `(case, inputs)`, an independent reference of the outputs from the inputs as the builder made them.
            oracle_tolerance: A `Tolerance` for the fixed launch against the oracle.
            tolerance: A `Tolerance` for candidates whose order of arithmetic may change: `within_tolerance`.
            batch_axis: Case axis that counts independent rows: parts of the batch are run and compared with the whole.
            batch_invariant: True where rows must have the same bytes alone and in the batch.
    """

    def declare(builder: Builder) -> KernelSpec:
        # Only a function tells in which module it was written; for anything else that is where it is decorated.
        module = builder.__module__ if inspect.isfunction(builder) else _calling_module()
        return _registered(_declared(builder, options), module)

    if bare is not None:
        error = f"kernel_spec got {shown(bare)} in place of options; write @kernel_spec(kernel=..., cases=[...])"
        module = str(getattr(bare, "__module__", ""))
        return cast("Callable[[Builder], KernelSpec]", _registered(KernelSpec(_name(bare), bare, error=error), module))
    return declare


def _calling_module() -> str:
    return str(sys._getframe(2).f_globals.get("__name__", ""))  # noqa: SLF001 - as warnings and logging find their caller


def _registered(spec: KernelSpec, module: str) -> KernelSpec:
    DECLARED.setdefault(module, []).append(spec)
    return spec


def _code(builder: Any) -> Any:
    """Return the code of the builder as it was written, below the wrappers of decorators."""
    try:
        return getattr(inspect.unwrap(builder), "__code__", None)
    except ValueError:  # wrappers in a circle
        return None


def _name(builder: Any) -> str:
    name = getattr(builder, "__name__", None) or getattr(builder, "name", None)
    return name if isinstance(name, str) else type(builder).__name__


def _declared(builder: Builder, options: dict[str, Any]) -> KernelSpec:
    name = _name(builder)
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
    given["key"] = names(options.get("key", ()))
    given["grid_independent"] = names(options.get("grid_independent", ()))
    given["marks"] = sequence(options.get("marks", ()))
    given["probes"] = targets(options.get("probes", ()))
    if options.get("profiles") is not None:
        given["profiles"] = names(options["profiles"])
    if options.get("candidates") is not None:
        given["candidates"] = tuple(options["candidates"])
    return KernelSpec(name, builder, **given)


def _problem(builder: Builder, options: dict[str, Any]) -> str | None:
    """Return the first thing wrong with the declaration that can be told without the kernel."""
    return (
        _builder_problem(builder)
        or _options_problem(options)
        or cases_problem(options)
        or _candidates_problem(options)
        or probes_problem(options.get("probes", ()), options.get("cases", ()))
    )


def _builder_problem(builder: Builder) -> str | None:
    if not inspect.isfunction(builder):
        return f"the builder is {shown(builder)}; decorate a function (case, seeded) that returns a launch"
    signature = inspect.signature(builder)
    if [(item.name, item.kind) for item in signature.parameters.values()] != [("case", _PLAIN), ("seeded", _PLAIN)]:
        return f"the builder takes {signature}; it must take (case, seeded)"
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(kind(builder) for kind in kinds):
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


def _candidates_problem(options: dict[str, Any]) -> str | None:
    candidates = options.get("candidates")
    if candidates is not None:
        if not is_sequence(candidates):
            return f"candidates={shown(candidates)} must be a list of Config objects; `grid(...)` makes one"
        if len(candidates) == 0:
            return "candidates is empty; an axis of grid() without values gives no configs"
        stranger = next((config for config in candidates if not isinstance(config, Config)), None)
        if stranger is not None:
            return f"candidates holds {shown(stranger)}; it must be a list of Config objects; `grid(...)` makes one"
    fixed = options.get("fixed")
    if fixed is not None and not isinstance(fixed, Config):
        return f"fixed={shown(fixed)} must be a Config"
    configs = [*(candidates or ()), *((fixed,) if fixed is not None else ())]
    problem: str | None = next((told for config in configs if (told := config.problem())), None)
    if not problem and not all(configs):
        problem = "a Config without names would force nothing; name a meta-parameter"
    return problem or duplicate_problem(candidates or ())


def duplicate_problem(candidates: Sequence[Config]) -> str | None:
    """Say which config occurs twice, or None."""
    seen: set[Config] = set()
    for config in candidates:
        if config in seen:
            return f"candidate {config.id} occurs twice; remove one"
        seen.add(config)
    return None


def _options_problem(options: dict[str, Any]) -> str | None:
    return _numbers_problem(options) or _kinds_problem(options) or _tolerances_problem(options)


def _numbers_problem(options: dict[str, Any]) -> str | None:
    for name, least in (("seeds", 1), ("repeats", MIN_REPEATS)):
        value = options.get(name)
        if value is not None and (type(value) is not int or not least <= value <= _MOST_EFFORT):
            return f"{name}={shown(value)} must be a whole number from {least} to {_MOST_EFFORT}"
    for name, most, what in (
        ("run_timeout_s", _LONGEST_S, "number of seconds"),
        ("compile_timeout_s", _LONGEST_S, "number of seconds"),
        *((name, _MOST_PERCENT, "number of percent") for name in ("tolerance_pct", "near_best_pct", "decay_pct")),
    ):
        value = options.get(name)
        if value is not None and (type(value) not in (int, float) or not 0 < value <= most):
            return f"{name}={shown(value)} must be a {what} above 0 and at most {most:.0f}"
    return None


def _kinds_problem(options: dict[str, Any]) -> str | None:
    for name in ("grid", "exclude", "oracle"):
        if options.get(name) is not None and not callable(options[name]):
            return f"{name}={shown(options[name])} must be callable"
    required = options.get("require_evidence")
    if required is not None and (type(required) is not str or required not in REQUIRABLE):
        return f"require_evidence={shown(required)} is no evidence that can be required; use {', '.join(REQUIRABLE)}"
    cache = options.get("cache", "cold")
    if type(cache) is not str or cache not in get_args(Cache):
        return f"cache={shown(cache)} must be {' or '.join(map(repr, get_args(Cache)))}"
    screen = options.get("screen", False)
    if not isinstance(screen, bool | str) or (isinstance(screen, str) and not _is_reason(screen)):
        return f"screen={shown(screen)} must be True, False or the reason as a string"
    for name in ("key", "grid_independent", "profiles"):
        value = options.get(name) or ()
        if not isinstance(value, str) and not (is_sequence(value) and all(isinstance(item, str) for item in value)):
            return f"{name}={shown(value)} must be a tuple of names"
    return profiles_problem(names(options.get("profiles") or ()), of_spec=True)


def _tolerances_problem(options: dict[str, Any]) -> str | None:
    for name in ("tolerance", "oracle_tolerance"):
        value = options.get(name)
        if value is not None and not isinstance(value, Tolerance):
            return f"{name}={shown(value)} must be a Tolerance(rtol=..., atol=..., ulp=...)"
        if value is not None and (problem := value.problem()):
            return f"{name}: {problem}"
    if options.get("oracle_tolerance") is not None and options.get("oracle") is None:
        return "oracle_tolerance= needs oracle=; for candidates against the fixed launch, write tolerance="
    return None


def _is_reason(text: str) -> bool:
    return text.strip() != "" and encodable(text) == text
