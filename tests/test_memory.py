"""Guarded and poisoned memory: what it shows, and what it must leave as it was."""

import importlib
import threading
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from memory_bytes import bytes_of, write
from torch import Tensor

from pytest_kernelqual.errors import InputError, KernelqualError
from pytest_kernelqual.on_device.memory import PATTERN_A, PATTERN_B, Memory, plain_allocations

CPU = torch.device("cpu")
PATTERNS = pytest.mark.parametrize("pattern", [PATTERN_A, PATTERN_B])
DTYPES = [
    torch.bool, torch.int8, torch.uint16, torch.int32, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.fixture
def memory() -> Iterator[Memory]:
    """Give a memory whose context must be closed when the test ends."""
    yield Memory(CPU)
    assert torch.empty(64).untyped_storage().resizable(), "an override was left behind"


@PATTERNS
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(64),
        lambda: torch.empty(()),
        lambda: torch.empty_like(torch.ones(5, 7)),
        lambda: torch.empty_like(torch.ones(5, 7).t()),
        lambda: torch.ones(3).new_empty(2, 2),
        lambda: torch.empty_strided((4, 4), (8, 1)),
        lambda: torch.empty_permuted((4, 5), (1, 0)),
        lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last),
        lambda: torch.empty(1, 2, 3, 4, 5, memory_format=torch.channels_last_3d),
        lambda: torch.empty(4, requires_grad=True),
        lambda: torch.nn.Linear(3, 4, bias=False).weight.new_empty(9),
        *[lambda dtype=dtype: torch.empty(9, dtype=dtype) for dtype in DTYPES],
    ],
)
def test_uninitialised_memory_holds_the_pattern(memory: Memory, make: Callable[[], Tensor], pattern: int) -> None:
    """Everything that nobody wrote is the pattern, so that reading it or leaving it changes bytes."""
    with memory.poisoned(pattern):
        tensor = make()
    assert bytes_of(tensor) == {pattern}


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(3, 5),
        lambda: torch.empty(()),
        lambda: torch.empty(0, 4),
        lambda: torch.empty(3, dtype=torch.bfloat16),
        lambda: torch.empty(7, requires_grad=True),
        lambda: torch.empty_strided((4, 4), (8, 1)),
        lambda: torch.empty_strided((4, 4), (0, 1)),
        lambda: torch.empty_strided((3, 4), (1, 2)),
        lambda: torch.empty_strided((0, 4), (1, 2)),
        lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last),
        lambda: torch.empty(1, 3, 1, 5, memory_format=torch.channels_last),
        lambda: torch.empty(2, 3, 4, 5, 6, memory_format=torch.channels_last_3d),
        lambda: torch.empty_like(torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)),
        torch.inference_mode()(lambda: torch.empty(4)),
    ],
)
def test_a_poisoned_tensor_looks_like_production_s(memory: Memory, make: Callable[[], Tensor]) -> None:
    """Guards are out of sight: storage size, offset, strides and autograd are as without them."""

    def seen(tensor: Tensor) -> tuple[object, ...]:
        storage = tensor.untyped_storage()
        return (
            *(tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.storage_offset(), storage.nbytes()),
            *(tensor.requires_grad, tensor.is_leaf, tensor.is_inference(), tensor._is_view(), tensor.layout),
            *(tensor.is_contiguous(), type(tensor), tensor.is_inference() or tensor._version, tensor.data_ptr() % 64),
        )

    plain = seen(make())
    with memory.poisoned(PATTERN_A):
        poisoned = seen(make())
    assert poisoned == plain


def test_initialised_results_are_untouched(memory: Memory) -> None:
    """Operations that write what they allocate give the values that they give without poison."""
    x = torch.randn(33, 17)
    operations: list[Callable[[], Tensor]] = [
        lambda: torch.zeros(5, 7),
        lambda: torch.full((9,), 2.5),
        lambda: torch.arange(40),
        x.clone,
        lambda: x.t().contiguous(),
        lambda: x @ x.t(),
        lambda: torch.cat([x, x]).sum(dim=0),
        lambda: torch.nn.functional.layer_norm(x, (17,)),
        lambda: torch.sort(x, dim=0).values,
        lambda: torch.tensor([[1.0, 2.0]]),
        lambda: torch.nn.functional.conv2d(x.view(1, 1, 33, 17), x[:3, :3].reshape(1, 1, 3, 3)),
        lambda: torch.zeros(3).resize_(2),
        lambda: torch.add(x, 1, out=torch.empty(0)),
        lambda: torch.linalg.qr(x).R,
        lambda: torch.fft.rfft(x).real,
    ]
    expected = [operation() for operation in operations]
    for pattern in (PATTERN_A, PATTERN_B):
        memory.begin_launch()
        with memory.poisoned(pattern):
            actual = [operation() for operation in operations]
        assert all(torch.equal(*pair) for pair in zip(expected, actual, strict=True))
        assert memory.damage() == []


def test_poison_reaches_other_threads_and_backward(memory: Memory) -> None:
    """Autograd's own threads allocate outside of any mode of the caller's thread."""
    seen: list[Tensor] = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:  # noqa: ARG004 - torch's signature
            return x * 2

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:  # noqa: ARG004 - torch's signature
            seen.append(torch.empty_like(grad))
            return grad * 2

    x = torch.ones(64, requires_grad=True)
    with memory.poisoned(PATTERN_B):
        y = Doubled.apply(x).sum()
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()
    assert bytes_of(seen[0]) == {PATTERN_B}
    assert x.grad is not None
    assert x.grad.eq(2).all()


def test_many_threads_allocate_at_once() -> None:
    """Guards are tracked and given up without losing a buffer when threads race."""
    memory = Memory(CPU, dead_limit_bytes=1 << 20)
    wrong: list[object] = []

    def work() -> None:
        try:
            for size in range(1, 150):
                tensor = torch.empty(size)
                if bytes_of(tensor) != {PATTERN_A}:
                    wrong.append(size)
                if size % 50 == 0:
                    write(tensor, tensor.nbytes, 1)
        except Exception as error:  # noqa: BLE001 - reported by the assertion
            wrong.append(error)

    with memory.poisoned(PATTERN_A):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(memory.damage()) == 4 * 2


def test_poison_reaches_a_custom_operator(memory: Memory) -> None:
    """Memory that an operator of a library allocates is poisoned like any other."""
    with torch.library._scoped_library("kernelqual_tests", "FRAGMENT"):

        @torch.library.custom_op("kernelqual_tests::raw", mutates_args=())
        def raw(a: Tensor) -> Tensor:
            return torch.empty_like(a)

        with memory.poisoned(PATTERN_A):
            assert bytes_of(raw(torch.ones(64))) == {PATTERN_A}


def test_compiled_code_stays_compiled(memory: Memory) -> None:
    """An override at the dispatch key is no reason for torch.compile to give up or to compile again."""
    compiled: list[int] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        compiled.append(1)
        return graph.forward

    function = torch.compile(lambda a: torch.empty_like(a).fill_(3) + a, backend=backend)
    assert function(torch.ones(4)).eq(4).all()
    for pattern in (PATTERN_A, PATTERN_B):
        with memory.poisoned(pattern):
            assert function(torch.ones(4)).eq(4).all()
    assert compiled == [1]


@pytest.mark.parametrize("loaded", ["before", "inside"])
def test_memory_of_generated_code_is_poisoned(memory: Memory, loaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of torch.compile's inductor takes its memory past the dispatcher; in the end it has its own way back."""
    codecache = importlib.import_module("torch._inductor.codecache")
    allocators: Any = torch._C._dynamo.guards
    original = allocators._empty_strided_cpu
    generated: Any = ModuleType("generated")
    monkeypatch.setattr(codecache.PyCodeCache, "modules", [])

    def load() -> None:
        generated.empty_strided_cpu = allocators._empty_strided_cpu
        codecache.PyCodeCache.modules.append(generated)

    if loaded == "before":
        load()
    with memory.poisoned(PATTERN_A):
        if loaded == "inside":
            load()
        assert bytes_of(generated.empty_strided_cpu((8,), (1,), torch.float32)) == {PATTERN_A}
    assert generated.empty_strided_cpu is original
    assert allocators._empty_strided_cpu is original


def test_function_modes_see_nothing_of_ours(memory: Memory) -> None:
    """A call trace taken by the user or by the tool holds production's operations only."""

    class Trace(torch.overrides.TorchFunctionMode):
        def __init__(self) -> None:
            self.calls: list[str] = []

        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204 - torch's signature
            self.calls.append(func.__name__)
            return func(*args, **(kwargs or {}))

    def traced() -> list[str]:
        with Trace() as trace:
            torch.empty(4).add_(1)
        return trace.calls

    plain = traced()
    with memory.poisoned(PATTERN_A):
        assert traced() == plain


def test_random_numbers_are_not_disturbed(memory: Memory) -> None:
    """Poison draws nothing."""
    torch.manual_seed(5)
    expected = torch.randn(16)
    with memory.poisoned(PATTERN_A):
        torch.manual_seed(5)
        torch.empty(100)
        assert torch.equal(torch.randn(16), expected)


@pytest.mark.filterwarnings("ignore:.*quantized:UserWarning")
def test_pinned_empty_and_quantised_tensors_are_left_alone(memory: Memory) -> None:
    """Their memory is not what kernels get from torch's allocator."""
    with memory.poisoned(PATTERN_A):
        empty = torch.empty(0, 3)
        quantised = torch.empty(4, dtype=torch.quint8)
    assert empty.data_ptr() == 0
    assert quantised.dtype == torch.quint8


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(-1),
        lambda: torch.empty(2, memory_format=torch.channels_last),
        lambda: torch.empty_strided((2, 2), (1,)),
        lambda: torch.empty_strided((2,), (-1,)),
        lambda: torch.empty(1 << 62),
    ],
)
def test_errors_are_torch_s_own(memory: Memory, make: Callable[[], Tensor]) -> None:
    """What torch refuses, memory that is not there included, is refused in the same words."""
    with pytest.raises(RuntimeError) as plain:
        make()
    with memory.poisoned(PATTERN_A), pytest.raises(type(plain.value)) as poisoned:
        make()
    first_words = str(plain.value).split("tried to allocate")[0]
    assert str(poisoned.value).startswith(first_words[:40])


def test_resize_gives_guarded_memory_and_keeps_values(memory: Memory) -> None:
    """A tensor that a launch grows moves to larger guarded memory, as torch moves it."""
    with memory.poisoned(PATTERN_A):
        tensor = torch.empty(4).fill_(3)
        tensor.resize_(50_000)
        assert tensor[:4].eq(3).all()
        assert tensor[4:].isnan().all()
        tensor.resize_(2, 2)
        assert tensor.eq(3).all()
        write(tensor, 200_000, 2)
    assert [(item.where, item.count) for item in memory.damage()] == [("after", 2)]


def test_nothing_is_left_after_the_context(memory: Memory) -> None:
    """Allocation is torch's own again, after errors too."""

    def broken_launch() -> None:
        with memory.poisoned(PATTERN_A):
            raise ValueError("a launch that fails")

    with pytest.raises(ValueError, match="a launch that fails"):
        broken_launch()
    assert torch.empty(64).untyped_storage().resizable()
    with memory.poisoned(PATTERN_A):
        assert not torch.empty(64).untyped_storage().resizable()
    assert torch.empty_strided((4,), (2,)).untyped_storage().resizable()


def test_opening_warns_of_nothing() -> None:
    """A suite that turns warnings into errors runs under poison."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.set_warn_always(True)
        try:
            with Memory(CPU).poisoned(PATTERN_A):
                torch.empty(3)
        finally:
            torch.set_warn_always(False)


def test_contexts_do_not_nest_and_patterns_are_bytes(memory: Memory) -> None:
    """Misuse is told, and what is open stays in order."""
    other = Memory(CPU)
    with memory.poisoned(PATTERN_A):
        with pytest.raises(KernelqualError, match="open already"), other.poisoned(PATTERN_B):
            pass
        assert bytes_of(torch.empty(3)) == {PATTERN_A}
    with pytest.raises(InputError, match="256 is not a byte"), memory.poisoned(256):
        pass
    with pytest.raises(InputError, match="device meta has no guarded memory"):
        Memory(torch.device("meta"))


def test_plain_allocations_hold_for_their_thread_only(memory: Memory) -> None:
    """What the tool allocates for itself during a launch is not the launch's."""
    seen: list[Tensor] = []
    with memory.poisoned(PATTERN_A), plain_allocations():
        plain = torch.empty(64)
        thread = threading.Thread(target=lambda: seen.append(torch.empty(64)))
        thread.start()
        thread.join()
    assert plain.untyped_storage().resizable()
    assert bytes_of(seen[0]) == {PATTERN_A}
