"""What is read from where: base addresses of global memory, and buffers of on-chip memory."""

from collections.abc import Iterator, Sequence

from pytest_kernelqual.judge.order_ir import Operation, UnreadableError, Value, element, is_pointer
from pytest_kernelqual.judge.order_ops import ALLOCATIONS, DOTS, LOADS, STORES, WRITES

_READERS = DOTS | {"ttg.local_load", "ttg.memdesc_trans", "ttng.tmem_load", "ttng.warp_group_dot_wait"}
_COPIES = frozenset({"ttng.async_tma_copy_local_to_global", "ttg.local_dealloc"})


def enclosing(operation: Operation) -> Iterator[Operation]:
    """Yield the loops and branches around an operation, the innermost first."""
    outer = operation.block.parent
    while outer is not None and outer.name.startswith("scf."):
        yield outer
        outer = outer.block.parent


class Memory:
    """Tell what operations of a function read and write."""

    def __init__(self, operations: Sequence[Operation], arguments: Sequence[Value]) -> None:
        """Find the writers of every buffer, and the arguments from which something is loaded."""
        self._numbers = {argument: str(number) for number, argument in enumerate(arguments)}
        self._writers: dict[Value, set[Operation]] = {}
        for operation in operations:
            if operation.name in WRITES:
                self._writers.setdefault(operation.operands[_written(operation)], set()).add(operation)
        self._loaded = {
            base
            for operation in operations
            if operation.name in LOADS or operation.name == "ttng.async_tma_copy_global_to_local"
            for base in self.bases(operation.operands[0])
        }

    def bases(self, pointer: Value) -> list[str]:
        """Return the arguments from which an address is made, by number; `?` for one that is loaded."""
        found: set[str] = set()
        seen: set[Value] = set()
        pending = [pointer]
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self._numbers:
                found.add(self._numbers[value])
            elif value.operation is None:
                pending += _entering(value)
            elif value.operation.name in LOADS | {"tt.int_to_ptr"}:
                found.add("?")
            elif value.operation.name == "ttg.global_scratch_alloc":  # holds a descriptor of a tensor
                made = [user for user in value.users if user.name == "ttng.tensormap_create"]
                pending += [user.operands[1] for user in made]
            else:
                pending += _sources(value)
        return sorted(found) or ["?"]

    def read_again(self, store: Operation) -> bool:
        """Tell whether the kernel loads from where it stores, so that a sum could go through memory."""
        if store.name not in STORES:
            return False
        pointer = store.operands[1 if store.name.startswith("amdg.") else 0]
        return not self._loaded.isdisjoint(self.bases(pointer))

    def writers(self, buffer: Value) -> set[Operation]:
        """Return the operations that write a buffer."""
        return self._writers.get(buffer, set())

    def loads_behind(self, operation: Operation) -> set[Operation]:
        """Return the loads from which the operands of an operation may be computed."""
        found: set[Operation] = set()
        seen: set[Value] = set()
        pending = list(operation.operands)
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            made = value.operation
            if made is None:
                pending += _entering(value)
                continue
            if made.name in LOADS:
                found.add(made)
            pending += made.operands
            pending += [item for region in made.regions for item in region[-1].operations[-1].operands]
            for writer in self.writers(value):
                pending += writer.operands
                found |= {writer} if writer.name == "ttng.async_tma_copy_global_to_local" else set()
        return found

    def written_inside(self, operation: Operation, buffer: Value) -> bool:
        """Tell whether a loop or branch writes a buffer that was made outside of it."""
        made = buffer.operation
        inside = made is not None and operation in enclosing(made)
        return not inside and any(operation in enclosing(writer) for writer in self.writers(buffer))

    def check(self, buffer: Value) -> None:
        """Refuse a buffer that is used otherwise than written and read as a whole."""
        pending = [buffer]
        while pending:
            value = pending.pop()
            for user in value.users:
                written = user in self.writers(buffer) and user.operands[_written(user)] is value
                if not written and user.name not in _READERS | _COPIES | {"ttng.tc_gen5_mma"}:
                    raise UnreadableError(f"a buffer that {user.name} uses")
                if user.name == "ttg.memdesc_trans":
                    pending += user.results

    def check_predicates(self, operation: Operation) -> None:
        """Refuse a write that may not happen."""
        predicates = [item for item in operation.operands if element(item.type) == "i1"]
        if operation.name == "ttng.tc_gen5_mma":  # before it stands whether to add, after it barriers with their own
            predicates = predicates[1:]
        for item in predicates:
            if item.operation is None or item.operation.text != "true":
                raise UnreadableError(f"{operation.name} under a condition")


def _written(operation: Operation) -> int:
    position = WRITES[operation.name]
    if position >= 0:
        return position
    return next(
        number
        for number, item in enumerate(operation.operands)
        if item.type.startswith("!ttg.memdesc")  # the buffer stands before its barrier
    )


def _entering(value: Value) -> list[Value]:
    loop = value.block.parent if value.block is not None else None
    if loop is None or loop.name != "scf.for" or value.index == 0:
        return []
    yielded = loop.regions[0][0].operations[-1].operands
    return [loop.operands[2 + value.index], yielded[value.index - 1]]


def _sources(value: Value) -> list[Value]:
    operation = value.operation
    assert operation is not None  # noqa: S101 - asked only of what an operation made
    if operation.name == "scf.for":
        return [operation.operands[3 + value.index], operation.regions[0][0].operations[-1].operands[value.index]]
    if operation.name == "scf.if":
        return [region[-1].operations[-1].operands[value.index] for region in operation.regions]
    if operation.name in ALLOCATIONS:
        return []
    return [operand for operand in operation.operands if is_pointer(operand.type)]
