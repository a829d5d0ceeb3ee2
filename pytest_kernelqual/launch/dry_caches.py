"""What Triton remembers of a jit function, during a dry run."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

# By jit function and target: to make a binder takes longer than all the rest of a dry launch.
_binders: WeakKeyDictionary[JITFunction, dict[GPUTarget, Any]] = WeakKeyDictionary()


def _made(jit: JITFunction, target: GPUTarget) -> Any:
    """Return caches for the active driver, whose target is given."""
    of_jit = _binders.setdefault(jit, {})
    if target not in of_jit:
        of_jit[target] = jit.create_binder()
    _, keys, *rest = of_jit[target]
    return {}, keys, *rest


class _NeverFull(dict[Any, Any]):
    """A cache of compiled kernels that gives nothing back, so that every launch tells its specialisation.

    What is compiled goes into the jit function's own cache, where the launches that follow find it.
    """

    def __init__(self, own: dict[Any, Any]) -> None:
        super().__init__()
        self.own = own

    def get(self, _key: Any, default: Any = None) -> Any:
        return default

    def __setitem__(self, key: Any, kernel: Any) -> None:
        self.own[key] = kernel


class DryCaches(dict[int, Any]):
    """A jit function's caches by device during a dry run, made for the driver that is active now."""

    def __init__(self, jit: JITFunction, bound: Callable[[dict[str, Any]], None]) -> None:
        """Take the place of the function's own; `bound` hears of the arguments of each launch."""
        super().__init__()
        self.jit = jit
        self.own = jit.device_caches
        self.bound = bound

    def __missing__(self, device: int) -> Any:
        """Return what Triton keeps for a device."""
        target = driver.active.get_current_target()
        own = self.own.get(device)  # as it is: looking it up would fill it
        kernels, keys, target, backend, binder = own if own and own[2] == target else _made(self.jit, target)

        def binding(*args: Any, **keywords: Any) -> Any:
            made = binder(*args, **keywords)
            self.bound(made[0])
            return made

        self[device] = (_NeverFull(kernels), keys, target, backend, binding)
        return self[device]
