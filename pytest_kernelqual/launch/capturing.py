"""What a kernel is launched with, told right before Triton takes over."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from pytest_kernelqual.launch.kernels import jit_function, plain, signature
from pytest_kernelqual.launch.patching import patch
from pytest_kernelqual.launch.proof import sizes

Take = Callable[[Mapping[str, Any], tuple[int, ...] | None], None]


class _KeptBack(BaseException):
    """Ends a call before its first launch; no handler of errors in production may take it for one."""


@contextmanager
def captured(kernel: Any, take: Take, *, launching: bool) -> Iterator[None]:
    """Tell of every launch of a kernel inside the block; enter `observed` within, so that forced values are told.

    Args:
        kernel: A Triton kernel, at any level of its wrappers.
        take: Called with every argument and launch option by name, and with the grid.
        launching: False ends the block, in silence, before the first launch takes place.
    """
    jit = jit_function(kernel)
    found = signature(jit)
    original = jit.run

    def run(*args: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
        if not warmup:
            bound = found.bound(args, keywords)
            places = sizes(grid(bound) if callable(grid) else grid)
            take({name: plain(value) for name, value in {**bound, **keywords}.items()}, places)
            if not launching:
                raise _KeptBack
        return original(*args, grid=grid, warmup=warmup, **keywords)

    with ExitStack() as undo:
        patch(undo, jit, "run", run)
        try:
            yield
        except _KeptBack:
            return
