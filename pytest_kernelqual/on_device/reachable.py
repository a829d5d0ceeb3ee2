"""The tensors that a launch can reach without being handed them."""

import functools
import inspect
from collections import deque
from collections.abc import Iterator, Mapping
from types import BuiltinMethodType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch

from pytest_kernelqual.errors import InputError

_MOST_OBJECTS = 100_000
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, range, type(None), torch.dtype, torch.device)
# Packages whose objects hold tensors of their own (caches, compiled graphs) that are not inputs.
_OPAQUE = ("torch", "triton", "numpy", "builtins", "pytest_kernelqual")

Named = tuple[str, Any]


def reachable_tensors(launch: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (path, tensor) for every tensor that `launch` can reach, each tensor once.

    Looked through are closures, defaults, partials, bound objects, containers, attributes of objects, modules'
    parameters and buffers, and those globals of the launch's own module that code found there names.
    InputError where that is more than 100,000 objects.
    """
    return ((path, value) for path, value in _reachable(launch) if isinstance(value, torch.Tensor))


def reachable_values(launch: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) for every number, text and the like that `launch` can reach in the same way."""
    return ((path, value) for path, value in _reachable(launch) if isinstance(value, _PLAIN))


def _reachable(launch: Any) -> Iterator[Named]:
    home = _home(launch)
    seen: dict[int, Any] = {}
    waiting: deque[Named] = deque([("launch", launch)])
    while waiting:
        path, value = waiting.popleft()
        if isinstance(value, _PLAIN):
            yield path, value
            continue
        if id(value) in seen:
            continue
        # Kept, not only its id: an id is free again once its object is gone.
        seen[id(value)] = value
        if len(seen) > _MOST_OBJECTS:
            raise InputError(
                f"the launch reaches more than {_MOST_OBJECTS:,} objects (the last is `{path}`); "
                "let it close over the tensors that it uses and not over what holds them"
            )
        if isinstance(value, torch.Tensor):
            yield path, value
        else:
            waiting.extend(_held(path, value, home))


def _home(launch: Any) -> dict[str, Any]:
    """Return the globals of the module that made the launch."""
    launch = inspect.unwrap(launch)
    while isinstance(launch, functools.partial | MethodType):
        launch = inspect.unwrap(launch.func if isinstance(launch, functools.partial) else launch.__func__)
    function = launch if isinstance(launch, FunctionType) or not callable(launch) else type(launch).__call__
    return getattr(function, "__globals__", {})


def _held(path: str, value: Any, home: dict[str, Any]) -> Iterator[Named]:
    if isinstance(value, FunctionType):
        yield from _held_by_function(path, value, home)
    elif isinstance(value, functools.partial):
        yield path, value.func
        yield from ((f"{path} argument {place}", item) for place, item in enumerate(value.args))
        yield from ((f"{path} argument {name}", item) for name, item in value.keywords.items())
    elif isinstance(value, MethodType | BuiltinMethodType):
        # Every function written in C has this type; its `__self__` is its module, which is not looked through.
        yield "self" if path == "launch" else path, value.__self__
        yield path, getattr(value, "__func__", None)
    elif isinstance(value, Mapping):
        yield from ((f"{path}[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple | deque):
        yield from ((f"{path}[{place}]", item) for place, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((f"an element of {path}", item) for item in value)
    elif isinstance(value, type):
        if value.__module__ == home.get("__name__"):
            yield from ((f"{path}.{name}", item) for name, item in vars(value).items())
    elif not isinstance(value, ModuleType):
        yield from _held_by_object(path, value)


def _held_by_function(path: str, function: FunctionType, home: dict[str, Any]) -> Iterator[Named]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a cell that nothing was put in yet
            continue
    defaults = function.__defaults__ or ()
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    yield from zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    yield from ((f"{path}.{name}", item) for name, item in vars(function).items())
    # Globals of production modules are production's own business: only the spec's module belongs to the launch.
    if function.__globals__ is home:
        names = set(_names(function.__code__))
        for name in sorted(names & home.keys()):
            item = home[name]
            yield name, item
            if isinstance(item, ModuleType):
                yield from ((f"{name}.{inner}", vars(item)[inner]) for inner in sorted(names & vars(item).keys())
                            if isinstance(vars(item)[inner], torch.Tensor))  # fmt: skip


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _held_by_object(path: str, value: Any) -> Iterator[Named]:
    if isinstance(value, torch.nn.Module):
        for held in (value._parameters, value._buffers, value._modules):  # noqa: SLF001 - names without recursion
            yield from ((f"{path}.{name}", item) for name, item in held.items())
    elif type(value).__module__.partition(".")[0] in _OPAQUE:
        return
    yield path, type(value)
    yield from ((f"{path}.{name}", item) for name, item in _attributes(value) if not _of_module(value, name))
    if callable(value) and isinstance(type(value).__call__, FunctionType):
        yield f"{path}.__call__", type(value).__call__


def _of_module(value: Any, name: str) -> bool:
    return isinstance(value, torch.nn.Module) and name in ("_parameters", "_buffers", "_modules")


def _attributes(value: Any) -> Iterator[Named]:
    yield from getattr(value, "__dict__", {}).items()
    for base in type(value).__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, MemberDescriptorType):
                try:
                    yield name, slot.__get__(value, type(value))
                except AttributeError:  # a slot that nothing was put in yet
                    continue
