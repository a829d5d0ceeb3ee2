"""The arithmetic order of a kernel: the value slices of all that it stores, and the options that they depend on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_kernelqual.judge.order import Fingerprint, Node
from pytest_kernelqual.judge.order_ir import Function, Operation, UnreadableError, element, is_integer, parse
from pytest_kernelqual.judge.order_loops import loop_depth
from pytest_kernelqual.judge.order_memory import enclosing
from pytest_kernelqual.judge.order_ops import ATOMICS, STORES, UNDERSTOOD, Scope
from pytest_kernelqual.judge.order_slices import Slices
from pytest_kernelqual.judge.order_tiles import Layout

_INTEGER_ATOMICS = frozenset({"add", "and", "max", "min", "or", "umax", "umin", "xor"})
_ALWAYS = Scope()

# Launch options that no value depends on, or whose effect the IR itself shows.
_NOT_NUMERIC = frozenset(
    [
        "backend_name",
        "clc",
        "cluster_dims",
        "debug",
        "extern_libs",
        "instrumentation_mode",
        "kpack",
        "launch_cooperative_grid",
        "launch_pdl",
        "matrix_instr_nonkdim",
        "maxnreg",
        "min_shared_mem",
        "num_ctas",
        "num_stages",
        "num_warps",
        "sched4reg",
        "schedule_hint",
        "warp_size",
        "waves_per_eu",
        "wgp_cu_mode",
    ]
)


def fingerprint(text: str, layouts: Sequence[Layout], *, target: str, options: Mapping[str, object]) -> Fingerprint:
    """Return the arithmetic order of one kernel.

    Args:
        text: Its IR for the device, made with one pipeline stage, as printed without locations.
        layouts: Of the first operand of every reduction and scan, in printed order.
        target: `cuda:90`, `hip:gfx942`.
        options: Launch options by name.
    """
    try:
        function = parse(text)
        for operation in function.walk():
            _check(operation)
        slices = Slices(function, layouts, target, options)
        return Fingerprint(_kernel(function, slices, options), grid_axes=frozenset(slices.grid_axes))
    except UnreadableError as error:
        return Fingerprint(None, str(error))
    except RecursionError:
        return Fingerprint(None, "the kernel is too long to be read")


def _check(operation: Operation) -> None:
    name = operation.name
    if name not in UNDERSTOOD:
        raise UnreadableError(f"the operation {name} is not understood")
    if "warp_specialize" in operation.text:
        raise UnreadableError("a warp-specialised loop")
    if name in ATOMICS:
        kind = operation.text.split(",")[0]
        if kind not in _INTEGER_ATOMICS or not is_integer(operation.operands[_stored(operation)].type):
            raise UnreadableError(f"{name} {kind}: the order of atomics on floats is decided at run time")
        if any(result.users for result in operation.results):
            raise UnreadableError(f"{name} {kind}: the value before it depends on the order at run time")


def _kernel(function: Function, slices: Slices, options: Mapping[str, object]) -> Node:
    """Return the slices of all stores; how often a store is repeated says nothing about an element."""
    roots = {node.digest: node for node in _roots(function, slices)}
    children = [("stores", node) for node in sorted(roots.values(), key=lambda node: (node.label, node.digest))]
    if slices.arithmetic:
        # What is off or empty is left out: a newer compiler's new option is off where it changes nothing.
        numeric = {name: value for name, value in options.items() if value and name not in _NOT_NUMERIC}
        children.append(("options", Node("options", tuple(sorted((k, str(v)) for k, v in numeric.items())))))
    return Node("kernel", (), tuple(children))


def _roots(function: Function, slices: Slices) -> Iterator[Node]:
    for operation in function.walk():
        if operation.name in STORES or operation.name in ATOMICS:
            yield _store(operation, slices)
        elif operation.name == "cf.cond_br" and not slices.positions.only(operation.operands[0]):
            yield Node("a branch", (), (("condition", slices.value(operation.operands[0], _ALWAYS)),))


def _store(operation: Operation, slices: Slices) -> Node:
    position = _stored(operation)
    stored = operation.operands[position]
    scope, loops = _ALWAYS, [outer for outer in enclosing(operation) if outer.name == "scf.for"]
    repeated = slices.memory.read_again(operation)
    if repeated:
        scope = replace(scope, loops=frozenset(loop_depth(outer) for outer in loops))
    children = [("value", slices.content(stored, operation, scope))]
    children += [
        ("place or mask", slices.value(other, scope))
        for other in operation.operands
        if other is not stored and not slices.positions.only(other)
    ]
    for outer in enclosing(operation):
        data = [operand for operand in outer.operands[:3] if not slices.positions.only(operand)]
        if outer.name == "scf.if" and data:
            children.append(("condition", slices.value(outer.operands[0], scope)))
        if outer.name == "scf.for" and (repeated or data):
            children += slices.loops.bounds(outer, scope)
    into = ",".join(slices.memory.bases(operation.operands[1 - bool(position)]))
    kind = operation.text.split(",")[0] if operation.name in ATOMICS else ""
    return Node(f"store to {into}", (("type", element(stored.type)), ("kind", kind)), tuple(children))


def _stored(operation: Operation) -> int:
    if operation.name == "ttng.async_tma_copy_local_to_global":
        return len(operation.operands) - 1
    if operation.name == "tt.descriptor_store":
        return len(operation.operands) - 1
    return 0 if operation.name.startswith("amdg.") else 1
