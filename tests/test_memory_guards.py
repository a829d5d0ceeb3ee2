"""Guard bands: stray writes around and within buffers are found, and nothing else is."""

import ctypes
import gc
from collections.abc import Callable

import pytest
import torch
from memory_bytes import bytes_of, write
from torch import Tensor

from pytest_kernelqual.on_device import guards
from pytest_kernelqual.on_device.memory import PATTERN_A, PATTERN_B, Damage, Memory

CPU = torch.device("cpu")


@pytest.fixture(params=["host", "device"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the ways to fill and check that the host has, and those of devices, which any tensor can go."""
    if request.param == "device":
        monkeypatch.setattr(guards, "on_host", lambda _tensor: False)


@pytest.fixture
def memory() -> Memory:
    """Give memory that nothing uses yet."""
    return Memory(CPU)


@pytest.mark.parametrize(
    ("offset", "count", "where", "nearest"),
    [(-1, 1, "before", -1), (-300, 4, "before", -297), (80, 4, "after", 80), (500, 8, "after", 500)],
)
@pytest.mark.parametrize("pattern", [PATTERN_A, PATTERN_B])
def test_a_stray_write_is_found(
    memory: Memory, offset: int, count: int, where: str, nearest: int, pattern: int
) -> None:
    """Bytes around an allocation or an input are found with place and number, once."""
    x = memory.allocate((4, 5), (5, 1), torch.float32, name="x").zero_()
    memory.begin_launch()
    with memory.poisoned(pattern):
        torch.empty(3)
        y = torch.empty(4, 5)
        write(y, offset, count)
        write(x, offset, count)
    assert memory.damage() == [
        Damage("input x", where, nearest, count),  # type: ignore[arg-type]
        Damage("allocation 2 (4, 5) float32", where, nearest, count),  # type: ignore[arg-type]
    ]
    assert memory.damage() == [], "guards are repaired: the next launch is not blamed"


def test_gaps_are_guard(memory: Memory) -> None:
    """Bytes between the elements of a strided buffer belong to nobody."""
    x = memory.allocate((3, 4), (10, 2), torch.int16, name="x").fill_(5)
    memory.begin_launch()
    with memory.poisoned(PATTERN_A):
        y = torch.empty_strided((3, 4), (10, 2), dtype=torch.int16).fill_(6)
        assert memory.damage() == []
        write(x, 2, 2)
        write(y, 2 * 25, 1)
    first, second = memory.damage()
    assert (first.name, first.where, first.offset_bytes, first.count) == ("input x", "gap", 2, 2)
    assert (second.where, second.offset_bytes, second.count) == ("gap", 50, 1)
    assert memory.damage() == []
    assert x.eq(5).all()
    assert y.eq(6).all()


@pytest.mark.parametrize("strides", [(0, 1), (1, 1), (4, 1), (1, 3), (2, 3)])
def test_broadcast_and_overlapping_buffers_have_no_false_damage(memory: Memory, strides: tuple[int, int]) -> None:
    """Elements that share memory are elements, not gaps."""
    x = memory.allocate((3, 4), strides, torch.float32)
    for index in range(3):
        x[index].fill_(index)
    assert memory.damage() == []


def test_an_input_is_filled_and_exact(memory: Memory) -> None:
    """An input's storage is as large as production's would be, with the guards outside of it."""
    x = memory.allocate((3, 4), (10, 1), torch.float32, pattern=PATTERN_B)
    assert bytes_of(x) == {PATTERN_B}
    assert (x.stride(), x.storage_offset(), x.untyped_storage().nbytes()) == ((10, 1), 0, 96)
    assert not x._is_view()
    assert memory.allocate((0, 3), (3, 1), torch.float32).shape == (0, 3)
    x.requires_grad_().sum().backward()
    assert x.grad is not None


def test_a_buffer_freed_by_the_launch_is_checked(memory: Memory) -> None:
    """The guards of scratch memory outlive it."""
    with memory.poisoned(PATTERN_A):
        scratch = torch.empty(100)
        write(scratch, 400, 4)
        del scratch
    assert [str(item) for item in memory.damage()] == [
        "4 bytes written after the end of allocation 1 (100,) float32, at byte +400 from its start"
    ]


def test_freed_memory_is_bounded_and_still_checked() -> None:
    """Beyond the limit freed buffers are checked at once and let go; no damage is lost."""
    memory = Memory(CPU, dead_limit_bytes=1 << 20)
    kept = []
    with memory.poisoned(PATTERN_A):
        for index in range(40):
            tensor = torch.empty(1 << 16)
            kept.append(tensor) if index == 0 else None
            if index in (0, 3):
                write(tensor, -8, 8)
        held = memory._held_bytes
    assert held < 3 << 20
    found = memory.damage()
    assert [(item.name.split(" (")[0], item.where) for item in found] == [
        ("allocation 4", "before"),
        ("allocation 1", "before"),
    ]


def test_freed_memory_is_given_up_before_running_out(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What production would have freed by then never makes an allocation fail."""
    from pytest_kernelqual.on_device import memory as module  # noqa: PLC0415 - patched here only

    with memory.poisoned(PATTERN_A):
        torch.empty(1 << 10)
        plain = module._originals["empty.memory_format"]
        failures = iter([True])

        class OutOnce:
            @staticmethod
            def call_boxed(*args: object, **options: object) -> object:
                if next(failures, False):
                    raise torch.OutOfMemoryError("out of memory")
                return plain.call_boxed(*args, **options)

        monkeypatch.setitem(module._originals, "empty.memory_format", OutOnce)
        tensor = torch.empty(64)
        assert bytes_of(tensor) == {PATTERN_A}
        failures = iter([True])
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(64)
    assert len(memory.damage()) == 0


def test_memory_is_released_after_the_launch(memory: Memory) -> None:
    """Only what the user still holds stays, and stays watched: a cached workspace can be overrun later."""
    with memory.poisoned(PATTERN_A):
        workspace = torch.empty(100)
        view = workspace[10:20]
        torch.empty(200)
    del workspace
    gc.collect()
    assert memory.damage() == []
    memory.begin_launch()
    with memory.poisoned(PATTERN_B):
        write(view, 360, 1)
    assert [item.where for item in memory.damage()] == ["after"]
    del view
    memory.begin_launch()
    assert memory._allocations == []
    assert memory._held_bytes == 0


def test_blocks_are_used_again(memory: Memory) -> None:
    """A block of an earlier launch is as poisoned and as guarded as a fresh one, and never one that still lives."""
    with memory.poisoned(PATTERN_A):
        kept, freed = torch.empty(100).fill_(1), torch.empty(100).fill_(1)
        address = freed.data_ptr()
        del freed
        assert memory.damage() == []
        again, fresh = torch.empty(100), torch.empty(100)
        assert again.data_ptr() == address
        assert len({tensor.data_ptr() for tensor in (kept, again, fresh)}) == 3
        assert bytes_of(again) == bytes_of(fresh) == {PATTERN_A}
        assert kept.eq(1).all()
        write(again, 400, 1)
    assert len(memory.damage()) == 1


def test_tensors_outlive_the_memory() -> None:
    """A returned tensor keeps its block when guards are no longer watched."""
    memory = Memory(CPU)
    x = memory.allocate((1000,), (1,), torch.float32).fill_(1)
    with memory.poisoned(PATTERN_A):
        y = torch.empty(1000).fill_(2)
    memory.forget_inputs()
    del memory
    gc.collect()
    junk = [torch.full((5000,), 9.0) for _ in range(50)]
    assert x.eq(1).all()
    assert y.eq(2).all()
    assert len(junk) == 50


def test_an_inference_tensor_s_guards_are_repaired(memory: Memory) -> None:
    """Inference tensors refuse to be changed outside of inference mode, except by us."""
    with memory.poisoned(PATTERN_A), torch.inference_mode():
        tensor = torch.empty(10)
        write(tensor, 40, 1)
    assert len(memory.damage()) == 1
    assert memory.damage() == []


@pytest.mark.parametrize("pattern", [PATTERN_A, PATTERN_B])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
@pytest.mark.parametrize("operation", [lambda x: x + 1, torch.relu, torch.nn.functional.silu, torch.clone])
def test_operations_that_forget_a_mask_are_found(
    memory: Memory, operation: Callable[[Tensor], Tensor], dtype: torch.dtype, pattern: int
) -> None:
    """What a tile reads from one guard and writes to another, or back, is never what was there."""
    if dtype == torch.int32 and operation is torch.nn.functional.silu:
        operation = torch.neg
    x = memory.allocate((100,), (1,), dtype, name="x").zero_()

    def tile(tensor: Tensor) -> Tensor:
        """Return the elements that a tile of 128 reaches."""
        address = ctypes.c_char * (128 * dtype.itemsize)
        return torch.frombuffer(address.from_address(tensor.data_ptr()), dtype=dtype)

    memory.begin_launch()
    with memory.poisoned(pattern):
        y = torch.empty(100, dtype=dtype)
        tile(y).copy_(operation(tile(x)))
    assert [item.where for item in memory.damage()] == ["after"]
    if operation is not torch.clone:
        with memory.poisoned(pattern):
            tile(x).copy_(operation(tile(x)))
        assert [item.name for item in memory.damage()] == ["input x"]


def test_reading_around_an_input_shows_under_another_pattern(memory: Memory) -> None:
    """Guards and gaps change with the pattern and only with it, so that a result that depends on them does too."""
    x = memory.allocate((3, 4), (6, 1), torch.float32).fill_(1)

    def around() -> tuple[bytes, ...]:
        with memory.poisoned(pattern):
            y = torch.empty(4)
        assert memory.damage() == []
        memory.begin_launch()
        starts = ((x, -64), (x, 64), (x, 16), (y, -64), (y, 16))
        return tuple(ctypes.string_at(tensor.data_ptr() + start, 8) for tensor, start in starts)

    seen = {}
    for pattern in (PATTERN_A, PATTERN_B, PATTERN_A, PATTERN_A):
        assert seen.setdefault(pattern, around()) == around()
        assert x.eq(1).all()
    assert all(left != right for left, right in zip(seen[PATTERN_A], seen[PATTERN_B], strict=True))
