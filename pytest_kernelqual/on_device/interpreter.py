"""What the Triton interpreter needs so that its bytes tell of the kernel."""

import threading
import types
from typing import Any

import numpy as np
from triton.runtime import interpreter

_start = threading.local()


def make_dots_independent_of_tiles() -> None:
    """Let `tl.dot` add the products of each element in the order of K, beginning with the accumulator.

    Triton's interpreter multiplies tiles by numpy's matrix product, whose library sums in another order for another
    tile on some CPUs: a config would differ from the fixed launch on one machine and not on the next.
    """
    if isinstance(interpreter.np, _Numpy):
        return
    interpreter.np = _Numpy("numpy")
    original = interpreter.InterpreterBuilder.create_dot

    def create_dot(builder: Any, a: Any, b: Any, d: Any, *rest: Any, **more: Any) -> Any:
        _start.total = d.data
        try:
            nothing = interpreter.TensorHandle(np.zeros_like(d.data), d.dtype.scalar)
            return original(builder, a, b, nothing, *rest, **more)
        finally:
            _start.total = None

    interpreter.InterpreterBuilder.create_dot = create_dot


class _Numpy(types.ModuleType):
    """Numpy as the interpreter sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def matmul(a: Any, b: Any, dtype: Any = None) -> Any:
        """Return the accumulator of the running `tl.dot`, if there is one, and the products on top of it."""
        dtype = np.result_type(a, b) if dtype is None else dtype
        a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        start = getattr(_start, "total", None)
        total = np.zeros(shape, dtype) if start is None else np.array(start, dtype)
        product = np.empty(shape, dtype)
        for k in range(a.shape[-1]):
            np.multiply(a[..., :, k, None], b[..., k, None, :], out=product)
            total += product
        return total
