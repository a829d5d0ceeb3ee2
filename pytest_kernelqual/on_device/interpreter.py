"""What the Triton interpreter needs so that its bytes tell of the kernel."""

import ast
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from triton import language as tl
from triton.runtime import interpreter

from pytest_kernelqual.on_device.libdevice import give_bodies

_start = threading.local()


def prepare_interpreter() -> None:
    """Change what would make its bytes tell of something else; to be called before kernels are imported."""
    if isinstance(interpreter.np, _Numpy):
        return
    make_dots_independent_of_tiles()
    make_floats_tensors()
    make_loop_variables_tensors()
    give_bodies()


def make_floats_tensors() -> None:
    """Give kernels their float arguments as compiled code does: tensors of float32, not Python's numbers.

    A number has no `.to(...)`, and takes the type of the tensor that it is combined with.
    """
    original = interpreter._implicit_cvt  # noqa: SLF001 - it has no public name

    def converted(argument: Any) -> Any:
        if isinstance(argument, float):
            return tl.tensor(interpreter.TensorHandle(np.array([argument], np.float32), tl.float32), tl.float32)
        return original(argument)

    interpreter._implicit_cvt = converted  # noqa: SLF001 - as above


def make_loop_variables_tensors() -> None:
    """Let the variables of loops be tensors, as in compiled code, in place of Python's integers."""
    interpreter.__dict__[_loop_variables.__name__] = _loop_variables  # where it looks for what is no global of a kernel
    interpreter.FunctionRewriter.ast_transformer = _Rewriting()


class _Rewriting(interpreter.ASTTransformer):  # type: ignore[misc]
    def visit_For(self, node: ast.For) -> Any:  # noqa: N802 - the name is Python's
        """Take the numbers of `range` and `tl.range`, but not of `tl.static_range`, as tensors."""
        self.generic_visit(node)
        ranging = node.iter
        if isinstance(ranging, ast.Call) and getattr(ranging.func, "id", getattr(ranging.func, "attr", "")) == "range":
            ranging.args.insert(0, ranging.func)
            ranging.func = ast.Name(_loop_variables.__name__, ast.Load())
        return node


def _loop_variables(ranging: Any, *bounds: Any, **options: Any) -> Iterator[Any]:
    wide = any(isinstance(bound, tl.tensor) and bound.dtype.primitive_bitwidth > 32 for bound in bounds)  # noqa: PLR2004
    kind, stored = (tl.int64, np.int64) if wide else (tl.int32, np.int32)
    for number in ranging(*bounds, **options):
        yield tl.tensor(interpreter.TensorHandle(np.array([number], stored), kind), kind)


def make_dots_independent_of_tiles() -> None:
    """Let `tl.dot` add the products of each element in the order of K, beginning with the accumulator.

    Triton's interpreter multiplies tiles by numpy's matrix product, whose library sums in another order for another
    tile on some CPUs: a config would differ from the fixed launch on one machine and not on the next.
    """
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
