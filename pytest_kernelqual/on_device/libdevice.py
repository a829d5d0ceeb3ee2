"""The vendors' mathematical functions under the Triton interpreter, which itself has none of them.

Triton's `libdevice.tanh` and its like are stubs there that return None, whatever they are given.
"""

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from triton import language as tl
from triton.runtime import interpreter

_MODULES = ("libdevice", "cuda.libdevice", "hip.libdevice")
_NP_TYPES = {tl.float32: np.float32, tl.float64: np.float64}

_SAME_NAME = (
    *("cbrt", "ceil", "copysign", "cos", "cosh", "exp", "exp2", "expm1", "floor", "fmod", "hypot", "log", "log10"),
    *("log1p", "log2", "nextafter", "rint", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
_OTHER_NAME = {
    **{name: f"arc{name[1:]}" for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh")},
    **{f"fast_{name}f": name for name in ("cos", "exp", "log", "log10", "log2", "sin", "tan")},
    "abs": "absolute",
    "add_rn": "add",
    "div_rn": "divide",
    "fast_dividef": "divide",
    "fast_powf": "power",
    "mul_rn": "multiply",
    "nearbyint": "rint",
    "pow": "power",
    "rcp_rn": "reciprocal",
    "sqrt_rn": "sqrt",
    "sub_rn": "subtract",
}
_PREDICATES = {"finitef": "isfinite", "isfinited": "isfinite", "isinf": "isinf", "isnan": "isnan", "signbit": "signbit"}
_OF_PYTHON = {"erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma, "tgamma": math.gamma}


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _SAME_NAME},
    **{name: getattr(np, other) for name, other in _OTHER_NAME.items()},
    **{name: np.vectorize(function, otypes=[np.float64]) for name, function in _OF_PYTHON.items()},
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "rsqrt": _rsqrt,
    "rsqrt_rn": _rsqrt,
}


def give_bodies() -> None:
    """Let numpy compute what it has; the rest raises NotImplementedError. To be called before kernels are imported."""
    for place in _MODULES:
        module = importlib.import_module(f"triton.language.extra.{place}")
        for name, found in list(vars(module).items()):
            # In the vendors' own modules there are imports of Triton beside the functions.
            if not name.startswith("_") and callable(found) and getattr(found, "__module__", None) == module.__name__:
                setattr(module, name, _body(name))


def _body(name: str) -> Callable[..., Any]:
    predicate = _PREDICATES.get(name)
    function = getattr(np, predicate) if predicate else _FUNCTIONS.get(name)

    def called(*arguments: Any, **_options: Any) -> Any:
        if function is None:
            raise NotImplementedError(f"libdevice.{name} has no body in the interpreter")
        tensors = [interpreter.interpreter_semantic.to_tensor(argument) for argument in arguments]
        kind = tensors[0].dtype
        if any(tensor.dtype != kind for tensor in tensors) or kind not in _NP_TYPES:
            given = ", ".join(str(tensor.dtype) for tensor in tensors)
            raise TypeError(f"libdevice.{name} takes numbers of one type, fp32 or fp64, and was given {given}")
        data = function(*(tensor.handle.data for tensor in tensors))
        made = tl.int32 if predicate else kind
        handle = interpreter.TensorHandle(data.astype(np.int32 if predicate else _NP_TYPES[kind]), made)
        shapes = [tensor.type.get_block_shapes() for tensor in tensors if tensor.type.is_block()]
        return tl.tensor(handle, tl.block_type(made, list(np.broadcast_shapes(*shapes))) if shapes else made)

    called.__name__ = name
    return called
