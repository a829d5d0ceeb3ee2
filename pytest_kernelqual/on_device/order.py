"""Lower a kernel to its device's IR with one pipeline stage, and read its arithmetic order there."""

import re
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from triton._C.libtriton import gluon_ir, ir
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import make_backend

from pytest_kernelqual.judge.order import Fingerprint
from pytest_kernelqual.judge.order_ir import shape
from pytest_kernelqual.judge.order_kernel import fingerprint
from pytest_kernelqual.judge.order_ops import REDUCTIONS
from pytest_kernelqual.judge.order_tiles import Layout
from pytest_kernelqual.on_device.kept_orders import KeptOrder

# A loop can ask for stages of its own, which would peel iterations just as the option does.
_LOOP_STAGES = re.compile(r"tt\.num_stages = \d+ : i32")


def order_of(compiled: Any) -> Fingerprint:
    """Return the arithmetic order of a compiled kernel, each kernel and option set read once a process."""
    metadata = compiled.metadata
    text = compiled.asm.get("ttir")
    if not isinstance(text, str):
        return Fingerprint(None, "the compiler kept no IR")
    return order_of_ir(text, metadata.target, metadata._asdict())


def order_of_source(source: Any, target: GPUTarget, options: Any) -> Fingerprint:
    """Return the arithmetic order of a kernel that is not compiled, from Triton's source and options objects."""
    try:
        backend, parsed, context = _backend(target, vars(options))
        given = (target, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)
        module = _stages(backend, parsed)["ttir"](source.make_ir(*given), {})
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises: then nothing is known
        return Fingerprint(None, f"it cannot be compiled to IR: {type(error).__name__}")
    return order_of_ir(str(module), target, vars(options))


def order_of_ir(text: str, target: GPUTarget, options: Mapping[str, Any]) -> Fingerprint:
    """Return the arithmetic order of a kernel printed before layouts are chosen, under launch options."""
    known = make_backend(target).parse_options(dict(options)).__dict__
    return _read(text, target, tuple(sorted((name, _hashable(value)) for name, value in known.items())))


@lru_cache(maxsize=4096)
def _read(text: str, target: GPUTarget, options: tuple[tuple[str, Any], ...]) -> Fingerprint:
    kept = KeptOrder(text, target, options)
    known = kept.read()
    if known is not None:
        return known
    try:
        lowered, layouts = _lowered(text, target, dict(options))
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises: then nothing is known
        return Fingerprint(None, f"it cannot be lowered with one stage: {type(error).__name__}")
    found = fingerprint(lowered, layouts, target=f"{target.backend}:{target.arch}", options=dict(options))
    kept.write(found)
    return found


def _lowered(text: str, target: GPUTarget, options: dict[str, Any]) -> tuple[str, list[Layout]]:
    """Return the IR of the device and the layouts of what its reductions and scans combine."""
    backend, parsed, context = _backend(target, {**options, "num_stages": 1})
    with tempfile.TemporaryDirectory(prefix="kernelqual-") as folder:
        path = Path(folder, "kernel.ttir")
        path.write_text(_LOOP_STAGES.sub("tt.num_stages = 1 : i32", text))
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    module = _stages(backend, parsed)["ttgir"](module, {})
    builder = gluon_ir.GluonOpBuilder(context)
    layouts: list[Layout] = []

    def collect(operation: Any) -> None:
        if operation.get_name() in REDUCTIONS:
            layouts.append(_layout(builder, operation.get_operand(0)))

    module.walk(collect)
    return module.str_nodebug(), layouts


def _backend(target: GPUTarget, options: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    backend = make_backend(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return backend, backend.parse_options(dict(options)), context


def _stages(backend: Any, options: Any) -> dict[str, Any]:
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    return stages


def _layout(builder: Any, value: Any) -> Layout:
    layout = builder.get_gluon_layout_from_tensor(value)
    linear = builder.to_linear_layout(layout._to_ir(builder), list(shape(str(value.get_type()))))  # noqa: SLF001
    return {
        "register": linear.reg_bases,
        "lane": linear.lane_bases,
        "warp": linear.warp_bases,
        "block": linear.block_bases,
    }


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | tuple | None) else repr(value)
