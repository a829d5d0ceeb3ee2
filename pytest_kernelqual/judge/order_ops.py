"""Which operations of the IR are understood, and how the axes of their results lie on those of their operands."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from pytest_kernelqual.judge.order_ir import Operation, UnreadableError, shape

_ARITH_INTEGER = """
addi addui_extended andi ceildivsi ceildivui cmpi divsi divui extsi extui floordivsi index_cast index_castui maxsi
maxui minsi minui muli mulsi_extended mului_extended ori remsi remui shli shrsi shrui subi trunci xori
"""
_ARITH_FLOAT = """
addf bitcast cmpf divf extf fptosi fptoui maximumf maxnumf minimumf minnumf mulf negf remf sitofp subf truncf uitofp
"""
_MATH = """
absf absi acos asin atan atan2 ceil copysign cos cosh ctlz ctpop cttz erf exp exp2 expm1 floor fma log log10 log1p log2
powf round roundeven rsqrt sin sincos sinh sqrt tan tanh trunc
"""

INTEGER = frozenset(f"arith.{name}" for name in _ARITH_INTEGER.split()) | {"tt.mulhiui", "math.absi"}

ELEMENTWISE = (
    INTEGER
    | {f"arith.{name}" for name in _ARITH_FLOAT.split()}
    | {f"math.{name}" for name in _MATH.split()}
    | {
        "arith.select",
        "tt.bitcast",
        "tt.clampf",
        "tt.fp_to_fp",
        "tt.int_to_ptr",
        "tt.precise_divf",
        "tt.precise_sqrt",
        "tt.ptr_to_int",
    }
)

# The element of the result is an element of the operand.
MOVES = frozenset(
    {
        "amdg.in_thread_transpose",
        "tt.broadcast",
        "tt.expand_dims",
        "tt.reshape",
        "tt.splat",
        "tt.trans",
        "tt.unsplat",
        "ttg.convert_layout",
        "ttg.local_load",
        "ttg.memdesc_trans",
        "ttng.tmem_load",
        "ttng.warp_group_dot_wait",
    }
)

# They hold or describe memory: addresses, never values.
ADDRESSES = frozenset(
    {
        "tt.addptr",
        "tt.make_tensor_descriptor",
        "ttg.global_scratch_alloc",
        "ttng.reinterpret_tensor_descriptor",
    }
)

POSITIONS = frozenset({"tt.get_num_programs", "tt.get_program_id", "tt.make_range"})

ALLOCATIONS = frozenset({"ttg.local_alloc", "ttng.tmem_alloc"})
LOADS = frozenset({"amdg.buffer_load", "tt.descriptor_load", "tt.load"})
STORES = frozenset({"amdg.buffer_store", "tt.descriptor_store", "tt.store", "ttng.async_tma_copy_local_to_global"})
ATOMICS = frozenset({"amdg.buffer_atomic_rmw", "tt.atomic_rmw"})
DOTS = frozenset({"tt.dot", "ttng.warp_group_dot"})
REDUCTIONS = frozenset({"tt.reduce", "tt.scan"})

# What they write into a buffer stands at the same place in their operands: (value, buffer).
WRITES: Mapping[str, int] = {
    "ttg.local_store": 1,
    "ttng.async_tma_copy_global_to_local": -1,
    "ttng.tc_gen5_mma": 2,
    "ttng.tmem_store": 1,
}

# They order, check or print, and make no value.
SILENT = frozenset(
    {
        "amdg.instruction_sched_hint",
        "amdg.sched_barrier",
        "cf.br",
        "cf.cond_br",
        "gpu.barrier",
        "llvm.intr.assume",
        "rocdl.s.setprio",
        "rocdl.sched.barrier",
        "scf.yield",
        "tt.assert",
        "tt.print",
        "tt.reduce.return",
        "tt.return",
        "tt.scan.return",
        "ttg.async_wait",
        "ttg.barrier",
        "ttg.local_barrier",
        "ttg.local_dealloc",
        "ttng.async_tma_store_token_wait",
        "ttng.async_tma_store_wait",
        "ttng.barrier_expect",
        "ttng.fence_async_shared",
        "ttng.init_barrier",
        "ttng.inval_barrier",
        "ttng.tensormap_create",
        "ttng.tensormap_fenceproxy_acquire",
        "ttng.wait_barrier",
    }
)

UNDERSTOOD = (
    ELEMENTWISE
    | MOVES
    | ADDRESSES
    | POSITIONS
    | ALLOCATIONS
    | LOADS
    | STORES
    | ATOMICS
    | DOTS
    | REDUCTIONS
    | SILENT
    | frozenset(WRITES)
    | {"arith.constant", "scf.for", "scf.if", "tt.histogram", "tt.join", "tt.split", "ub.poison"}
)

# Values of these depend on positions alone, where their operands do.
INDEX_OPERATIONS = (
    INTEGER
    | ADDRESSES
    | POSITIONS
    | (MOVES - {"ttg.local_load", "ttng.tmem_load", "ttng.warp_group_dot_wait"})
    | {"arith.constant", "arith.select", "scf.for", "scf.if", "tt.bitcast", "tt.int_to_ptr", "tt.join", "tt.ptr_to_int"}
    | {"tt.split", "ub.poison"}
)

# Combined in any order they give the same bits. Minima and maxima of floats do so where a NaN has one form;
# AMD's maxnum and minnum keep the payload of one of their operands.
_ORDER_FREE = frozenset(
    f"arith.{name}"
    for name in ["addi", "andi", "maximumf", "maxsi", "maxui", "minimumf", "minsi", "minui", "muli", "ori", "xori"]
)
_ORDER_FREE_ON_NVIDIA = frozenset({"arith.maxnumf", "arith.minnumf"})


def order_free(operation: Operation, target: str) -> bool:
    """Tell whether the operation gives the same bits however its operands are grouped."""
    return operation.name in _ORDER_FREE or (target.startswith("cuda") and operation.name in _ORDER_FREE_ON_NVIDIA)


@dataclass(frozen=True)
class Scope:
    """From where a value is looked at."""

    axes: tuple[tuple[int, str], ...] = ()
    """Axes of the value along which an operation further out combines, with names: positions on them matter."""
    loops: frozenset[int] = frozenset()
    """Depths of the loops that carry a sum further out: iterations matter."""
    strict: bool = False
    """Positions are kept in full: bounds of loops decide how often something is added."""
    depth: int = 0
    """Counts the names given to axes."""

    def over(self, axes: Mapping[int, str]) -> "Scope":
        """Return the same scope for a value whose axes lie elsewhere."""
        return replace(self, axes=tuple(sorted(axes.items())))

    def along(self, axis: int, axes: Mapping[int, str]) -> "Scope":
        """Return the scope in which `axis` is combined along, too."""
        named = {axis: f"axis {self.depth}", **axes}
        return replace(self, axes=tuple(sorted(named.items())), depth=self.depth + 1)

    def renamed(self) -> tuple["Scope", list[str]]:
        """Return the scope with names of its own, and those that it had, in the order of the new ones."""
        names = list(dict.fromkeys(named for _, named in self.axes))
        axes = tuple((axis, f"axis {names.index(named)}") for axis, named in self.axes)
        return replace(self, axes=axes, depth=len(names)), names


def operand_axes(operation: Operation, position: int, axes: Mapping[int, str]) -> dict[int, str]:
    """Return where the named axes of a result lie on an operand; those that it does not have are left out."""
    source = shape(operation.operands[position].type)
    result = shape(operation.results[0].type) if operation.results else source
    name = operation.name
    if name == "tt.expand_dims":
        axis = int(operation.attribute("axis") or 0)
        return {axis_ - (axis_ > axis): named for axis_, named in axes.items() if axis_ != axis}
    if name == "tt.broadcast":
        return {axis: named for axis, named in axes.items() if not (source[axis] == 1 and result[axis] != 1)}
    if name in {"tt.trans", "ttg.memdesc_trans"}:
        return {moved: axes[axis] for axis, moved in enumerate(permutation(operation)) if axis in axes}
    if name == "tt.reduce":
        axis = int(operation.attribute("axis") or 0)
        return {axis_ + (axis_ >= axis): named for axis_, named in axes.items()}
    if name == "tt.reshape":
        return {
            axis: "+".join(axes[moved] for moved in into if moved in axes)
            for from_, into in regrouped(source, result)
            if any(moved in axes for moved in into)
            for axis in from_
        }
    return {axis: named for axis, named in axes.items() if axis < len(source)}


def permutation(operation: Operation) -> list[int]:
    """Return the order of a transposition."""
    order = (operation.attribute("order") or "").partition(":")[2].strip(" >")
    if not order:
        raise UnreadableError(f"{operation.name} without a readable order")
    return [int(axis) for axis in order.split(",")]


def regrouped(source: tuple[int, ...], result: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Split a reshape into the smallest groups of axes that hold the same elements."""
    groups: list[tuple[list[int], list[int]]] = []
    left, right = 0, 0
    while left < len(source) or right < len(result):
        from_, into = [left] if left < len(source) else [], [right] if right < len(result) else []
        left, right = left + len(from_), right + len(into)
        while prod(source[axis] for axis in from_) != prod(result[axis] for axis in into):
            if prod(source[axis] for axis in from_) < prod(result[axis] for axis in into):
                from_.append(left)
                left += 1
            else:
                into.append(right)
                right += 1
        groups.append((from_, into))
    return groups
