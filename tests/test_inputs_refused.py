"""Seeded inputs that are refused: tensors that nobody remembered, and requests that cannot be met."""

import collections
import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.on_device.inputs import SeededInputs
from pytest_kernelqual.on_device.reachable import reachable_tensors

Launch = Callable[..., Any]
Hide = Callable[[torch.Tensor], Launch]


@pytest.fixture
def seeded() -> SeededInputs:
    """Return inputs on the CPU."""

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str) -> torch.Tensor:
        del name
        return torch.empty_strided(shape, strides, dtype=dtype)

    return SeededInputs(stream="refused", device=torch.device("cpu"), interpreted=True, allocate=allocate)


class Op:
    """An object with a launch method."""

    def __init__(self, held: Any) -> None:
        """Keep what is hidden."""
        self.held = held

    def __call__(self) -> Any:
        """Launch."""
        return self.held

    def run(self) -> Any:
        """Launch by name."""
        return self.held


class Slotted:
    """An object without a __dict__."""

    __slots__ = ("empty", "held")

    def __init__(self, held: Any) -> None:
        """Keep what is hidden; leave the other slot empty."""
        self.held = held


@dataclasses.dataclass(slots=True)
class Row:
    """A dataclass."""

    held: Any


Pair = collections.namedtuple("Pair", ["first", "second"])  # noqa: PYI024 - the class that its users use

GLOBAL: Any = None
MODULE = types.ModuleType("tables")


class Table:
    """A class that holds a tensor."""

    held: Any = None


def read_global() -> Any:
    """Use the global."""
    return GLOBAL


def closure(x: Any) -> Launch:
    """Hide in a cell."""
    return lambda: x


def nested_function(x: torch.Tensor) -> Launch:
    """Hide in the cell of a local helper."""

    def helper() -> Any:
        return x

    return lambda: helper()  # noqa: PLW0108 - the cell of a cell is the point


def default(x: torch.Tensor) -> Launch:
    """Hide in a default."""
    return lambda a=1, b=x: (a, b)


def keyword_default(x: torch.Tensor) -> Launch:
    """Hide in the default of a keyword."""
    return lambda *, b=x: b


def function_attribute(x: torch.Tensor) -> Launch:
    """Hide in an attribute of the function."""

    def launch() -> Any:
        return launch.held  # type: ignore[attr-defined]

    launch.held = x  # type: ignore[attr-defined]
    return launch


def global_tensor(x: torch.Tensor) -> Launch:
    """Hide in a global that the launch names."""
    globals()["GLOBAL"] = x
    return lambda: GLOBAL


def global_in_nested_code(x: torch.Tensor) -> Launch:
    """Hide in a global that only a function within the launch names."""
    globals()["GLOBAL"] = x
    return lambda: [GLOBAL for _ in range(1)]


def global_of_a_global_function(x: torch.Tensor) -> Launch:
    """Hide behind a helper of the same module."""
    globals()["GLOBAL"] = x
    return lambda: read_global()  # noqa: PLW0108 - the global function is the point


def global_module(x: torch.Tensor) -> Launch:
    """Hide in a module that the launch names."""
    MODULE.held = x  # type: ignore[attr-defined]
    return lambda: MODULE.held


def class_attribute(x: torch.Tensor) -> Launch:
    """Hide in a class of the same module."""
    Table.held = x
    return lambda: Table.held


def torch_module(x: torch.Tensor) -> torch.nn.Module:
    """Hide in a parameter two modules down."""
    linear = torch.nn.Linear(2, 2, bias=False)
    linear.weight = torch.nn.Parameter(x.new_ones(2, 2))
    return torch.nn.Sequential(torch.nn.Sequential(linear))


def buffer(x: torch.Tensor) -> Launch:
    """Hide in a buffer."""
    module = torch.nn.Module()
    module.register_buffer("held", x)
    return lambda: module


HIDING_PLACES: dict[str, tuple[Hide, str]] = {
    "closure": (closure, "x"),
    "nested function": (nested_function, "x"),
    "default": (default, "b"),
    "keyword default": (keyword_default, "b"),
    "function attribute": (function_attribute, "launch.held"),
    "partial argument": (lambda x: functools.partial(print, 1, x), "launch argument 1"),
    "partial keyword": (lambda x: functools.partial(print, end=x), "launch argument end"),
    "partial of a closure": (lambda x: functools.partial(closure(x)), "x"),
    "bound method": (lambda x: Op(x).run, "self.held"),
    "builtin method": (lambda x: x.sum, "self"),
    "wrapped": (lambda x: functools.wraps(global_tensor(x))(lambda: None), "GLOBAL"),
    "callable object": (Op, "launch.held"),
    "list of dicts": (lambda x: closure([{"k": x}]), "x[0]['k']"),
    "tuple": (lambda x: closure((1, x)), "x[1]"),
    "named tuple": (lambda x: closure(Pair(1, x)), "x[1]"),
    "deque": (lambda x: closure(collections.deque([x])), "x[0]"),
    "set": (lambda x: closure({x}), "an element of x"),
    "mapping": (lambda x: closure(types.MappingProxyType({1: x})), "x[1]"),
    "object": (lambda x: closure(Op(Op(x))), "x.held.held"),
    "namespace": (lambda x: closure(types.SimpleNamespace(a=x)), "x.a"),
    "slots": (lambda x: closure(Slotted(x)), "x.held"),
    "dataclass": (lambda x: closure(Row(x)), "x.held"),
    "global": (global_tensor, "GLOBAL"),
    "global in nested code": (global_in_nested_code, "GLOBAL"),
    "global of a global function": (global_of_a_global_function, "GLOBAL"),
    "global module": (global_module, "MODULE.held"),
    "class": (class_attribute, "Table.held"),
    "parameter": (torch_module, "launch.0.0.weight"),
    "buffer": (buffer, "module.held"),
}


@pytest.mark.parametrize("place", HIDING_PLACES)
def test_a_foreign_tensor_is_found_where_it_hides(seeded: SeededInputs, place: str) -> None:
    """The message names the variable, shape, dtype and device, and what to do; adopting it helps."""
    hide, path = HIDING_PLACES[place]
    foreign = torch.ones(2, 2, dtype=torch.float32)
    launch = hide(foreign)
    with pytest.raises(InputError) as caught:
        seeded.freeze(launch)
    assert str(caught.value) == (
        f"the launch uses a tensor that seeded did not make: `{path}` (shape (2, 2), float32, cpu); "
        "make it by seeded.* or hand it to seeded.adopt(t, name=...)"
    )
    for _, tensor in reachable_tensors(launch):
        seeded.adopt(tensor)
    seeded.freeze(launch)
    seeded.restore()


def test_views_of_inputs_are_no_foreign_tensors(seeded: SeededInputs) -> None:
    """What shares memory with an input is restored with it."""
    x = seeded.normal((4, 4))
    views = [x.t(), x[1:], x.view(torch.int32), x.detach()]
    seeded.freeze(lambda: views)
    views[1].zero_()
    seeded.restore()
    assert not views[1].eq(0).any()


def test_what_a_builder_computed_is_foreign(seeded: SeededInputs) -> None:
    """A copy is not restored, so it must be adopted."""
    x = seeded.normal((4,))
    y = x * 2
    with pytest.raises(InputError, match=r"`y` \(shape \(4,\), float32, cpu\)"):
        seeded.freeze(lambda: x + y)


@pytest.mark.parametrize("odd", [torch.eye(2).to_sparse(), torch.empty(2, device="meta")], ids=["sparse", "meta"])
def test_tensors_without_memory_are_foreign_and_cannot_be_adopted(seeded: SeededInputs, odd: torch.Tensor) -> None:
    """They are found like others; adopt says why it does not take them."""
    with pytest.raises(InputError, match="`odd`"):
        seeded.freeze(lambda: odd)
    with pytest.raises(InputError, match=r"is sparse|is on meta, expected cpu"):
        seeded.adopt(odd)


def test_torch_and_own_objects_are_not_looked_through(seeded: SeededInputs) -> None:
    """A launch may use seeded itself, modules, generators and other globals of production."""
    x = seeded.normal((2,))
    generator = torch.Generator()
    seeded.freeze(lambda: (x, seeded.device, generator, torch.nn.functional.relu, pytest))
    assert [info.name for info in seeded.descriptions()] == ["input0"]


def test_cycles_and_long_plain_data_are_looked_through_once(seeded: SeededInputs) -> None:
    """Self-reference ends; numbers and strings do not count as objects."""
    loop: list[Any] = [list(range(200_000))]
    loop.append(loop)
    seeded.freeze(lambda: loop)


def test_too_many_objects_are_an_error_and_not_a_silent_end(seeded: SeededInputs) -> None:
    """A tensor may hide behind the limit."""
    many = [[number] for number in range(100_001)]
    with pytest.raises(InputError, match="more than 100,000 objects"):
        seeded.freeze(lambda: many)


def test_adopt_returns_the_tensor_and_knows_it_again(seeded: SeededInputs) -> None:
    """Adopting twice is harmless, another name for the same tensor is not."""
    x = torch.zeros(2)
    assert seeded.adopt(x, name="x") is x
    assert seeded.adopt(x) is x
    with pytest.raises(InputError, match="remembered as 'x' already; it cannot be 'y'"):
        seeded.adopt(x, name="y")


def test_adopt_refuses_what_cannot_be_restored(seeded: SeededInputs) -> None:
    """Results that autograd follows, conjugates, and what is no tensor."""
    with pytest.raises(InputError, match=r"shape \(2,\), float32, cpu\) is a result that autograd follows"):
        seeded.adopt(torch.zeros(2, requires_grad=True) * 2)
    with pytest.raises(InputError, match="conjugate"):
        seeded.adopt(torch.zeros(2, dtype=torch.complex64).conj())
    with pytest.raises(InputError, match="takes a tensor, not list"):
        seeded.adopt([1, 2])  # type: ignore[arg-type]


def test_adopt_refuses_another_device_but_takes_scalars() -> None:
    """The message shows the device seen and the one expected; a CPU scalar is passed by value."""
    allocate: Any = None
    away = SeededInputs(stream="s", device=torch.device("cuda", 0), interpreted=False, allocate=allocate)
    with pytest.raises(InputError, match="is on cpu, expected cuda:0"):
        away.adopt(torch.zeros(3))
    scale = torch.tensor(2.0)
    assert away.adopt(scale, name="scale") is scale


def test_an_input_that_became_a_result_is_refused(seeded: SeededInputs) -> None:
    """Its graph would be differentiated again at every launch."""
    x = seeded.normal((2,), name="x")
    x.mul_(torch.ones(2, requires_grad=True))
    with pytest.raises(InputError, match="input 'x' became a result that autograd follows"):
        seeded.freeze(lambda: x)


def test_names_are_given_in_order_and_once(seeded: SeededInputs) -> None:
    """Defaults count all inputs; a name that is taken is refused before memory is asked for."""
    for name in (None, "w", None):
        seeded.zeros((1,), name=name)
    with pytest.raises(InputError, match="two inputs are named 'w'"):
        seeded.zeros((1,), name="w")
    with pytest.raises(InputError, match="name=7 must be a string"):
        seeded.zeros((1,), name=7)
    seeded.freeze(lambda: None)
    assert [info.name for info in seeded.descriptions()] == ["input0", "w", "input2"]


Ask = Callable[[Any], Any]
REFUSALS: list[tuple[Ask, str]] = [
    (lambda s: s.normal(5), "shape=5 must be a sequence of whole numbers"),
    (lambda s: s.normal((2, 1.5)), r"shape=\(2, 1\.5\) must be a sequence of whole numbers"),
    (lambda s: s.normal((2, -1)), r"shape=\(2, -1\) has a negative number"),
    (lambda s: s.normal((2,), dtyp="float16"), "seeded.normal has no option 'dtyp'; did you mean 'dtype'"),
    (lambda s: s.normal((2,), dtype="bfloat61"), "dtype='bfloat61' is not a dtype.*did you mean 'bfloat16'"),
    (lambda s: s.normal((2,), dtype=torch.float8_e8m0fnu), "make the bytes as uint8 and view them"),
    (lambda s: s.normal((2,), dtype="int32"), r"torch.int32 holds whole numbers only; use randint"),
    (lambda s: s.uniform((2,), dtype="bool"), r"torch.bool holds whole numbers only; use randint"),
    (lambda s: s.normal((2,), std=-1), "std=-1.0 is negative"),
    (lambda s: s.normal((2,), mean=float("nan")), "mean=nan must be a finite number"),
    (lambda s: s.normal((2,), std="1.x"), "std='1.x' must be a finite number"),
    (lambda s: s.normal((2,), std=1e39), "std = 1e[+]39 is too large for torch.float32"),
    (lambda s: s.uniform((2,), low=1, high=1), r"\[low=1.0, high=1.0\) must be within .* and not empty"),
    (lambda s: s.uniform((2,), high=1e6, dtype="float16"), "high=1000000.0.*within -65504.0 to 65504.0"),
    (lambda s: s.uniform((2,), low=1.01, high=1.02, dtype="float8_e5m2"), "has no value in"),
    (lambda s: s.randint(5, 5, (2,)), r"randint of \[low=5, high=5\) is empty"),
    (lambda s: s.randint(0, 1.5, (2,)), "high=1.5 must be a whole number"),
    (lambda s: s.randint(0, 300, (2,), dtype="uint8"), "torch.uint8 does not hold .* from 0 to 299, only 0 to 255"),
    (lambda s: s.randint(0, 300, (2,), dtype="bfloat16"), "torch.bfloat16 does not hold .* only -256 to 256"),
    (lambda s: s.randint(-(1 << 63), (1 << 63) - 1, (2,)), r"is between 2\*\*63 and 2\*\*64"),
    (lambda s: s.bernoulli((2,), p=1.5), "p=1.5 must be a probability"),
    (lambda s: s.permutation(300, dtype="uint8"), "torch.uint8 does not hold"),
    (lambda s: s.permutation(-1), "has a negative number"),
    (lambda s: s.arange(40, dtype="float8_e4m3fn"), "only -16 to 16"),
    (lambda s: s.full((2,), 2.5, dtype="int8"), "value=2.5 is not a whole number"),
    (lambda s: s.full((2,), 128, dtype="int8"), "value=128 is outside of int8, which holds -128 to 127"),
    (
        lambda s: s.full((2,), 1e6, dtype="float16"),
        "value=1000000.0 is outside of float16, whose largest value is 65504",
    ),
    (lambda s: s.full((2,), float("inf"), dtype="float8_e4m3fn"), "value=inf is outside of float8_e4m3fn"),
    (lambda s: s.full((2,), 1j, dtype="float32"), "value=1j is complex"),
    (lambda s: s.full((2,), "1"), "value='1' is a str"),
    (lambda s: s.zeros((4, 4), strides=(3, 1)), "strides=.3, 1. let elements .* stride 3 needs a stride of at least 4"),
    (lambda s: s.zeros((4, 4), strides=(0, 1)), "let elements of shape=.4, 4. share memory"),
    (lambda s: s.zeros((4, 4), strides=(1,)), "has 1 numbers, shape=.4, 4. has 2"),
    (lambda s: s.zeros((4,), strides=(-1,)), "has a negative number"),
    (lambda s: s.zeros((4, 4), strides=(4, 1), layout="row_major"), "are both given"),
    (lambda s: s.zeros((4,), layout="column_major"), "swaps the last two axes"),
    (lambda s: s.zeros((4, 4), layout="channels_last"), "is of 4 or 5 axes"),
    (lambda s: s.zeros((4, 4), layout="fortran"), "layout='fortran' is unknown"),
    (lambda s: s.zeros((4,), requires_grad="yes"), "requires_grad='yes' must be True or False"),
    (lambda s: s.zeros((4,), dtype="int32", requires_grad=True), "requires_grad=True needs a floating"),
]


@pytest.mark.parametrize(("ask", "message"), REFUSALS, ids=[str(number) for number in range(len(REFUSALS))])
def test_what_cannot_be_made_is_refused_in_one_line(seeded: SeededInputs, ask: Ask, message: str) -> None:
    """The message shows the value and the limit; the inputs made so far, and those to come, are as they were."""
    with pytest.raises(InputError, match=message) as caught:
        ask(seeded)
    assert "\n" not in str(caught.value)
    seeded.normal((2,))
    seeded.freeze(lambda: None)
    assert [info.name for info in seeded.descriptions()] == ["input0"]
    assert seeded.descriptions()[0].digest == "sha256:be245303ff6465670cf363228a9d0e792a113d1d80c17787eba29601e1ead846"
