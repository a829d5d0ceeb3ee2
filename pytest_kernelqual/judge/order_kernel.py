"""The arithmetic order of a kernel: the value slices of all that it stores, and the options that they depend on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_kernelqual.judge.order import Fingerprint, Node
from pytest_kernelqual.judge.order_ir import (
    Function,
    Operation,
    UnreadableError,
    Value,
    addresses,
    element,
    is_integer,
    parse,
)
from pytest_kernelqual.judge.order_loops import loop_depth
from pytest_kernelqual.judge.order_memory import enclosing
from pytest_kernelqual.judge.order_ops import ATOMICS, LOADS, STORES, UNDERSTOOD, Scope
from pytest_kernelqual.judge.order_places import conditions, exclusive
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
        _check_memory(function, slices)
        made = _kernel(function, slices, options)
        return Fingerprint(made, grid_axes=frozenset(slices.grid_axes | slices.places.grid_axes))
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
    roots = {node.digest: node for node in _apart(dict(_roots(function, slices)), slices)}
    children = [("stores", node) for node in sorted(roots.values(), key=lambda node: (node.label, node.digest))]
    if slices.places.tiles:  # a program's number means what the tiles make of it that are stored
        stores = [operation for operation in function.walk() if operation.name in STORES]
        where = {slices.places.told(item): None for store in stores for item in _address(store)}
        sizes = tuple(("tiles of several sizes", told) for told in slices.places.uneven())
        children.append(("places", Node("places", (*sizes, *(("to", told) for told in where)))))
    if slices.arithmetic:
        # What is off or empty is left out: a newer compiler's new option is off where it changes nothing.
        numeric = {name: value for name, value in options.items() if value and name not in _NOT_NUMERIC}
        children.append(("options", Node("options", tuple(sorted((k, str(v)) for k, v in numeric.items())))))
    return Node("kernel", (), tuple(children))


def _check_memory(function: Function, slices: Slices) -> None:
    """Refuse a load that follows a store to the same memory: what it finds there is not followed."""
    stores: dict[str, list[Operation]] = {}
    for operation in function.walk():
        if operation.name in LOADS:
            for base in slices.memory.bases(operation.operands[0]):
                if any(not exclusive(store, operation) for store in stores.get(base, ())):
                    raise UnreadableError(f"argument {base} is loaded from where it was stored to before")
        elif operation.name in STORES:
            for base in slices.memory.bases(_base(operation)):
                stores.setdefault(base, []).append(operation)


def _roots(function: Function, slices: Slices) -> Iterator[tuple[Operation, Node]]:
    for operation in function.walk():
        made = _root(operation, slices)
        if made is not None:
            apart = slices.told_apart(operation)
            yield operation, made if apart is None else _root(operation, apart) or made


def _root(operation: Operation, slices: Slices) -> Node | None:
    if operation.name in STORES or operation.name in ATOMICS:
        return _store(operation, slices)
    if operation.name == "cf.cond_br" and not slices.positions.only(operation.operands[0]):
        return Node("a branch", (), (("condition", slices.value(operation.operands[0], _ALWAYS)),))
    return None


def _apart(roots: Mapping[Operation, Node], slices: Slices) -> Iterator[Node]:
    """Yield the slices of stores; with their places where elements of one memory are computed in several ways."""
    ways: dict[str, dict[bytes, Operation]] = {}
    for operation, node in roots.items():
        ways.setdefault(node.label, {}).setdefault(node.digest, operation)
    before: Counter[str] = Counter()
    for operation, node in roots.items():
        first = next(iter(ways[node.label].values()))
        if operation.name not in STORES or len(ways[node.label]) == 1:
            yield node
            continue
        place = f"{node.label} at {_place(operation, first, slices)}"
        before[place] += 1  # of several to one place, the last is what is left
        yield Node(node.label, (*node.attributes, ("place", f"{place}, number {before[place]}")), node.children)


def _place(store: Operation, first: Operation, slices: Slices) -> str:
    """Return which elements a store writes, beside another store."""
    told = [slices.places.apart(one, other) for one, other in zip(_address(store), _address(first), strict=True)]
    masks = [
        item for item in store.operands if element(item.type) == "i1" and item is not store.operands[_stored(store)]
    ]
    told += [slices.places.told(mask) for mask in masks if slices.positions.only(mask)]
    for condition, holds in conditions(store):
        if slices.positions.only(condition):
            told.append(f"{holds}: {slices.places.told(condition)}")
    return "; ".join(told)


def _address(store: Operation) -> list[Value]:
    stored = store.operands[_stored(store)]
    return addresses(item for item in store.operands if item is not stored)


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
    into = ",".join(slices.memory.bases(_base(operation)))
    kind = operation.text.split(",")[0] if operation.name in ATOMICS else ""
    return Node(f"store to {into}", (("type", element(stored.type)), ("kind", kind)), tuple(children))


def _base(store: Operation) -> Value:
    return store.operands[1 - bool(_stored(store))]


def _stored(operation: Operation) -> int:
    if operation.name == "ttng.async_tma_copy_local_to_global":
        return len(operation.operands) - 1
    if operation.name == "tt.descriptor_store":
        return len(operation.operands) - 1
    return 0 if operation.name.startswith("amdg.") else 1
