"""What a kernel is: its wrappers, its parameters, and the configs that it can take."""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any

import triton
from triton.backends import backends
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction, KernelInterface, KernelParam

from pytest_kernelqual.errors import DeclarationError
from pytest_kernelqual.model.config import Config, Scalar

# The options that triton.Config names itself, with what it means by leaving them out.
TUNED_OPTIONS: Mapping[str, Scalar] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class KernelInfo:
    """What a config of a kernel may set."""

    name: str
    """Python name of the jit function."""
    parameters: tuple[str, ...]
    """Constexpr parameters that a config may set."""
    derived: tuple[str, ...]
    """Names computed by `triton.heuristics`."""
    launch_options: frozenset[str]
    """`num_warps` and its like, with every option of the installed backends."""
    configs: tuple[Config, ...]
    """An autotuned kernel's own configs, each once; else empty."""
    arguments: tuple[str, ...] = ()
    """Runtime arguments, which a config may not set."""


@dataclass(frozen=True)
class Signature:
    """The parameters of a jit function."""

    parameters: Mapping[str, inspect.Parameter]
    constexprs: tuple[str, ...]
    positional: tuple[str, ...]

    def placed(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments by name, without defaults and options."""
        given = dict(zip(self.positional, args, strict=False))
        return given | {name: value for name, value in keywords.items() if name in self.parameters}

    def bound(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return every argument by name, with defaults."""
        defaults = {name: p.default for name, p in self.parameters.items() if p.default is not inspect.Parameter.empty}
        return defaults | self.placed(args, keywords)

    def replaced(
        self, args: Sequence[Any], keywords: Mapping[str, Any], values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with `values` in the places where the caller gave them, else as keywords."""
        placed, named = list(args), dict(keywords)
        for name, value in values.items():
            position = self.positional.index(name) if name in self.positional else len(placed)
            if position < len(placed):
                placed[position] = value
            elif value is None and name not in self.parameters:
                # Triton itself leaves an unset option out: not every backend knows every option.
                named.pop(name, None)
            else:
                named[name] = value
        return tuple(placed), named


def is_kernel(obj: object) -> bool:
    """Tell whether `obj` is a jit function of Triton, or wraps one as autotune and heuristics do."""
    return bool(levels(obj))


def interpreted(kernel: object) -> bool:
    """Tell whether the Triton interpreter runs the kernel."""
    return not isinstance(jit_function(kernel), JITFunction)


def levels(kernel: object) -> list[Any]:
    """Return the wrappers of a kernel, outermost first, ending in its jit function; empty for anything else."""
    chain = [kernel]
    while isinstance(chain[-1], KernelInterface):
        if isinstance(chain[-1], jit_types()):
            return chain
        inner = getattr(chain[-1], "fn", None)
        if any(inner is outer for outer in chain):
            break
        chain.append(inner)
    return []


def kernel_function(kernel: object) -> Callable[..., Any]:
    """Return the Python function inside a kernel; DeclarationError where there is none."""
    function: Callable[..., Any] = jit_function(kernel).fn
    return function


def jit_function(kernel: object) -> Any:
    """Return the jit function inside a kernel.

    Raises:
        DeclarationError: It is not a Triton kernel.
    """
    chain = levels(kernel)
    if not chain:
        raise DeclarationError(_not_a_kernel(kernel))
    return chain[-1]


@lru_cache(maxsize=256)
def signature(jit: Any) -> Signature:
    """Return the parameters of a jit function, compiled or interpreted; read once, as every launch asks for them."""
    parameters = dict(inspect.signature(jit.fn).parameters)
    return Signature(
        parameters=parameters,
        constexprs=tuple(
            name
            for number, (name, parameter) in enumerate(parameters.items())
            if KernelParam(number, parameter, False, False).is_constexpr  # noqa: FBT003 - triton's own signature
        ),
        positional=tuple(name for name, parameter in parameters.items() if parameter.kind in _POSITIONAL),
    )


def describe_kernel(kernel: object) -> KernelInfo:
    """Tell what a config of `kernel` may set, and its own configs.

    Raises:
        DeclarationError: It is not a Triton kernel, or a config of its autotuner holds what a `Config` cannot.
    """
    jit = jit_function(kernel)
    chain = levels(kernel)
    found = signature(jit)
    name = jit.fn.__name__
    tuner = next((level for level in chain if isinstance(level, Autotuner)), None)
    own = [] if tuner is None else [_own_config(name, index, config) for index, config in enumerate(tuner.configs)]
    return KernelInfo(
        name=name,
        parameters=found.constexprs,
        derived=tuple(key for level in chain if isinstance(level, Heuristics) for key in level.values),
        launch_options=launch_options(),
        # Libraries clamp block sizes and so list a config twice; a second run of it would tell nothing.
        configs=tuple(dict.fromkeys(own)),
        arguments=tuple(key for key in found.parameters if key not in found.constexprs),
    )


def check_config(info: KernelInfo, config: Mapping[str, Scalar]) -> str | None:
    """Say which name or value of `config` the kernel cannot take, or None."""
    for name, value in config.items():
        if name in info.parameters:
            continue
        if name in info.launch_options:
            if name in TUNED_OPTIONS and type(value) is not int and not (name == "maxnreg" and value is None):
                return f"{name}={value!r} is a {type(value).__name__}; use a whole number"
            continue
        if name in info.arguments:
            return (
                f"{name!r} is a runtime argument of kernel {info.name}, not a constexpr, so a config cannot set it; "
                f"constexpr parameters: {', '.join(info.parameters) or 'none'}"
            )
        near = get_close_matches(name, [*info.parameters, *TUNED_OPTIONS, *sorted(info.launch_options)], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"constexpr parameters: {', '.join(info.parameters) or 'none'}"
        return f"kernel {info.name} has no meta-parameter or launch option {name!r}; {hint}"
    return None


@cache
def launch_options() -> frozenset[str]:
    """Return the names of the launch options of all installed backends."""
    names = set(TUNED_OPTIONS)
    for backend in backends.values():
        for made in vars(sys.modules[backend.compiler.__module__]).values():
            if isinstance(made, type) and dataclasses.is_dataclass(made):
                fields = {field.name for field in dataclasses.fields(made)}
                # A backend's module holds other dataclasses (targets, languages) beside its options.
                names |= fields if "num_warps" in fields else set()
    return frozenset(names)


def config_values(config: triton.Config) -> dict[str, Any]:
    """Return what a `triton.Config` sets, options at their defaults left out except num_warps and num_stages."""
    values = {name: plain(value) for name, value in config.kwargs.items()}
    values |= {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if config.num_ctas not in (None, 1):
        values["num_ctas"] = config.num_ctas
    if config.maxnreg is not None:
        values["maxnreg"] = config.maxnreg
    return values


def plain(value: Any) -> Any:
    """Return the value inside a `tl.constexpr`, or the value itself."""
    return value.value if type(value).__name__ == "constexpr" else value


def is_scalar(value: object) -> bool:
    """Tell whether a config can hold the value."""
    return value is None or type(value) in (bool, int, float, str)


def _own_config(name: str, index: int, made: triton.Config) -> Config:
    config = Config(config_values(made))
    problem = config.problem()
    if problem:
        raise DeclarationError(
            f"config {index} of the autotuned kernel {name} cannot be a candidate: {problem}; "
            "name the value by a string or number and let the kernel look it up"
        )
    return config


def _not_a_kernel(obj: object) -> str:
    kind = f"{type(obj).__module__}.{type(obj).__qualname__}".removeprefix("builtins.")
    shown = repr(obj)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."  # noqa: PLR2004 - one line
    return (
        f"kernel={shown} is a {kind}, not a Triton kernel; give the @triton.jit, @triton.heuristics or "
        "@triton.autotune object, or leave kernel= out and let the launch take the config as its argument"
    )


def jit_types() -> tuple[type, ...]:
    """Return Triton's own kernel types, compiled and interpreted."""
    # The interpreter is imported by Triton only where it is asked for, and needs numpy.
    interpreter = sys.modules.get("triton.runtime.interpreter")
    return (JITFunction,) if interpreter is None else (JITFunction, interpreter.InterpretedFunction)
