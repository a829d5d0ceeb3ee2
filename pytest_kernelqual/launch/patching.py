"""Replace what Triton, and libraries around it, do at a launch; all of it is put back."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import KernelInterface

from pytest_kernelqual.launch.kernels import jit_types


def defining(base: type, name: str) -> list[type]:
    """Return `base` and the subclasses of it that define `name` themselves."""
    found, todo = [], [base]
    while todo:
        cls = todo.pop()
        todo.extend(cls.__subclasses__())
        if name in vars(cls) and cls not in found:
            found.append(cls)
    return found


def patch(undo: ExitStack, obj: Any, name: str, value: Any) -> None:
    """Set an attribute until `undo` is closed."""
    if name in vars(obj):
        undo.callback(setattr, obj, name, vars(obj)[name])
    else:
        undo.callback(delattr, obj, name)
    setattr(obj, name, value)


def pass_through(undo: ExitStack, concerns: Callable[[Any], bool] = lambda _wrapper: True) -> None:
    """Let the wrappers that libraries put around Triton's kernels hand every launch on to what they wrap.

    One with a launch cache would launch what it remembers, past Triton's objects, and keep what it is given.

    Args:
        undo: Takes it back.
        concerns: Tells which wrappers; others run as in production.
    """
    triton_own = (Autotuner, Heuristics, *jit_types())

    def passing(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(wrapper: Any, *args: Any, **keywords: Any) -> Any:
            inner = getattr(wrapper, "fn", None)
            # Without a grid it is called in a way of its own, as torch's compiler calls what it has generated.
            if "grid" not in keywords or not isinstance(inner, KernelInterface) or not concerns(wrapper):
                return original(wrapper, *args, **keywords)
            return inner.run(*args, **keywords)

        return run

    for cls in defining(KernelInterface, "run"):
        if not issubclass(cls, triton_own):
            patch(undo, cls, "run", passing(vars(cls)["run"]))
