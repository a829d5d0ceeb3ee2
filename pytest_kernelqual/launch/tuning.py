"""Autotuned kernels in the steady state of production: the config is chosen, its hook runs, nothing is benchmarked."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import triton
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import AutotunerError, OutOfResources, PTXASError

from pytest_kernelqual.errors import UnsupportedConfigError
from pytest_kernelqual.launch.kernels import TUNED_OPTIONS, config_values, is_scalar
from pytest_kernelqual.model.config import Config, Scalar

# What Triton's own benchmarking takes as "too slow", and so never settles on.
_TOO_SLOW = (OutOfResources, CompileTimeAssertionFailure, PTXASError)

# By autotuner and tuning key: the position of the first config that could be launched.
_settled: WeakKeyDictionary[Any, dict[Any, int]] = WeakKeyDictionary()

running_hooks: ContextVar[tuple[Callable[..., Any], ...]] = ContextVar("running_hooks", default=())
"""Hooks of the autotuners' configs that the launch which is on its way has run."""


def tuned_names(tuner: Any) -> set[str]:
    """Return the meta-parameters that the autotuner itself passes on."""
    return {name for config in tuner.configs for name in config.kwargs}


def first_config(tuner: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> triton.Config:
    """Return the first config that early_config_prune keeps for these arguments."""
    return _kept(tuner, args, keywords)[0]


def run_pinned(tuner: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Run an autotuned kernel with the first config that production could settle on for these arguments."""
    kept = _kept(tuner, args, keywords)
    settled = _settled.setdefault(tuner, {})
    key = _tuning_key(tuner, args, keywords)
    for position in range(min(settled.get(key, 0), len(kept) - 1), len(kept)):
        try:
            made = run_steadily(tuner, kept[position], args, keywords)
        except _TOO_SLOW:
            if position == len(kept) - 1:
                raise
        else:
            settled[key] = position
            return made
    raise AssertionError("the last config either runs or raises")


def run_steadily(tuner: Any, chosen: triton.Config, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Run an autotuned kernel as production does once it has settled on `chosen`."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    tuner.best_config = chosen
    values = chosen.all_kwargs()
    outer = running_hooks.get()
    if chosen.pre_hook is not None:
        chosen.pre_hook({**tuner.nargs, **keywords, **values})
        running_hooks.set((*outer, chosen.pre_hook))
    try:
        return tuner.fn.run(*args, **keywords, **values)
    finally:
        running_hooks.set(outer)
        tuner.nargs = None


def fixed_config(tuner: Any, fixed: Config) -> triton.Config:
    """Return the own config that `fixed` names, in full or in part, else the first one changed as `fixed` says."""
    partly = (own for own in tuner.configs if _agree(config_values(own), fixed))
    return _equal_config(tuner, fixed) or next(partly, None) or _changed(tuner, tuner.configs[0], fixed)


def forced_config(tuner: Any, config: Config, base: triton.Config) -> triton.Config:
    """Return the own config equal to `config`, else `base` changed as `config` says, with the hook that it inherits."""
    return _equal_config(tuner, config) or _changed(tuner, base, config)


def require_kept(tuner: Any, chosen: triton.Config, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise UnsupportedConfigError where early_config_prune drops or rewrites `chosen` for these arguments."""
    configs = list(tuner.configs)
    if not any(own is chosen for own in configs):
        configs.append(chosen)
    # Compared by value: prune functions may return copies, and one that clamps a value has ruled the config out.
    if not any(kept == chosen for kept in _pruned(tuner, configs, args, keywords)):
        raise UnsupportedConfigError(
            f"early_config_prune of {tuner.base_fn.__name__} drops {Config(config_values(chosen)).id} "
            "for these arguments: production would never launch it"
        )


def _kept(tuner: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[triton.Config]:
    kept = _pruned(tuner, list(tuner.configs), args, keywords)
    if not kept:
        raise AutotunerError(f"early_config_prune of {tuner.base_fn.__name__} left no config for these arguments")
    return kept


def _tuning_key(tuner: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return what production tells launches apart by: the values that the kernel names, and all dtypes."""
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **keywords}
    named = [str(given[name]) for name in tuner.keys if name in given and is_scalar(given[name])]
    return (*named, *(str(value.dtype) for value in given.values() if hasattr(value, "dtype")))


def _pruned(
    tuner: Any, configs: list[triton.Config], args: Sequence[Any], keywords: Mapping[str, Any]
) -> list[triton.Config]:
    # Triton prunes only where there is a choice.
    if tuner.early_config_prune is None or len(tuner.configs) <= 1:
        return configs
    copies = [_copied(config) for config in configs]
    return list(tuner.early_config_prune(copies, dict(zip(tuner.arg_names, args, strict=False)), **keywords))


def _copied(config: triton.Config) -> triton.Config:
    # Prune functions were seen to write into the configs that they are given.
    made = copy.copy(config)
    made.kwargs = dict(config.kwargs)
    return made


def _equal_config(tuner: Any, config: Mapping[str, Scalar]) -> triton.Config | None:
    wanted = {"num_ctas": 1, "maxnreg": None, **config}
    return next(
        (own for own in tuner.configs if {"num_ctas": 1, "maxnreg": None, **config_values(own)} == wanted), None
    )


def _agree(values: Mapping[str, Any], config: Mapping[str, Scalar]) -> bool:
    missing = object()
    return all({**TUNED_OPTIONS, **values}.get(name, missing) == value for name, value in config.items())


def _changed(tuner: Any, base: triton.Config, config: Mapping[str, Scalar]) -> triton.Config:
    options = {name: config.get(name, getattr(base, name)) for name in TUNED_OPTIONS}
    kwargs = {**base.kwargs, **{name: value for name, value in config.items() if name not in TUNED_OPTIONS}}
    made = triton.Config(kwargs, **options)
    equal = _equal_config(tuner, config_values(made))
    if equal is not None:
        return equal
    # ir_override is left out: a replaced IR would make the config mean nothing.
    made.pre_hook = next((own.pre_hook for own in tuner.configs if own.pre_hook is not None), None)
    return made
