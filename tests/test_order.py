"""Arithmetic orders: what is told apart, what is equal, what is unknown, and how that is said."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.cache import get_cache_manager

from pytest_kernelqual.judge.order import (
    Fingerprint,
    Node,
    Order,
    OrderedLaunch,
    compare_orders,
    differences,
)
from pytest_kernelqual.judge.order_kernel import fingerprint
from pytest_kernelqual.launch import dry_run, fake_driver, is_cached
from pytest_kernelqual.on_device.kept_launches import KeptLaunches
from pytest_kernelqual.on_device.kept_orders import KeptOrder
from pytest_kernelqual.on_device.order import order_of_source

TARGETS = {
    "cuda:80": GPUTarget("cuda", 80, 32),
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:100": GPUTarget("cuda", 100, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
}
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    """Give the kernels, compiled."""
    with knobs.runtime.scope():
        knobs.runtime.interpret = False
        return importlib.import_module("order_kernels")


def order(kernel: Any, target: str = "cuda:90", **config: Any) -> Fingerprint:
    """Return the order of a kernel under a config."""
    x, y, i = torch.empty(1 << 16), torch.empty(1 << 16), torch.empty(1 << 16, dtype=torch.int32)
    with fake_driver(TARGETS[target]), dry_run() as run:
        kernel[(4,)](x, y, i, 4096, **{"BLOCK": 128, **config})
    told = run.launches[0].specialisation
    return order_of_source(told.source, told.target, told.options)


def between(kernel: Any, target: str = "cuda:90", /, **changed: tuple[Any, Any]) -> list[str]:
    """Return what differs between two configs."""
    one, other = ({name: values[side] for name, values in changed.items()} for side in (0, 1))
    a, b = order(kernel, target, **one), order(kernel, target, **other)
    assert (a.unknown, b.unknown) == ("", "")
    return differences(a, b)


class TestUnknown:
    """What cannot be read is never the same, not even as itself."""

    @pytest.mark.parametrize(
        "name",
        [
            "external",
            "assembly",
            "locked",
            "looking",
            "exchanged",
            "float_atomic",
            "ticket",
            "reordered",
            "specialised",
            "unrolled_through_memory",
            "called",
        ],
    )
    @pytest.mark.parametrize("target", ["cuda:90", "cuda:100", "hip:gfx942"])
    def test_reason_is_told(self, kernels: ModuleType, name: str, target: str) -> None:
        """On every target."""
        told = order(getattr(kernels, name), target)
        assert told.slices is None
        assert told.digest == ""
        assert any(reason in told.unknown for reason in kernels.UNKNOWN[name].split(" or "))
        launch = OrderedLaunch(name, told, (1,))
        assert compare_orders([launch], [launch]).verdict == "unknown"

    def test_ir_that_is_not_understood_is_told(self) -> None:
        """Garbage, an empty module, a truncated one; layouts that do not fit."""
        assert fingerprint("", [], target="cuda:90", options={}).unknown.startswith("0 functions")
        assert fingerprint("?!", [], target="cuda:90", options={}).unknown == "the line '?!' is not printed as expected"
        text = "module {\ntt.func public @f(%x: !tt.ptr<f32>) {\n%0 = arith.addf %y, %y : f32\ntt.return\n}\n}"
        assert "%y is used before it is made" in fingerprint(text, [], target="cuda:90", options={}).unknown
        whole = text.replace("%y", "%x")
        assert fingerprint(whole, [], target="cuda:90", options={}).unknown == ""
        extra = fingerprint(whole, [{"register": [[1]]}], target="cuda:90", options={})
        assert extra.unknown == "1 layouts for 0 reductions"

    def test_new_operation_is_unknown(self) -> None:
        """What is not listed is not understood."""
        text = "module {\ntt.func public @f(%x: !tt.ptr<f32>) {\ntt.novelty %x : !tt.ptr<f32>\ntt.return\n}\n}"
        told = fingerprint(text, [], target="cuda:90", options={}).unknown
        assert told == "the operation tt.novelty is not understood"


@pytest.mark.parametrize("target", TARGETS)
class TestTargets:
    """What holds on every target."""

    @pytest.mark.parametrize("name", ["doubled", "doubled_unrolled", "counted", "histogram"])
    def test_block_of_elements_changes_nothing(self, kernels: ModuleType, name: str, target: str) -> None:
        """And neither do warps; how often a store is unrolled says nothing about an element."""
        assert between(getattr(kernels, name), target, BLOCK=(128, 1024), num_warps=(4, 8)) == []
        assert differences(order(kernels.doubled, target), order(kernels.doubled_unrolled, target)) == []

    def test_other_arithmetic_differs(self, kernels: ModuleType, target: str) -> None:
        """In words."""
        told = differences(order(kernels.doubled, target), order(kernels.tripled, target))
        assert told == ["arith.mulf: operand 1 2.000000e+00 -> 3.000000e+00"]
        assert any("128 -> 256" in text or "7 -> 8" in text for text in between(
            kernels.times_block, target, BLOCK=(128, 256)
        ))  # fmt: skip

    def test_stages_of_a_loop_change_nothing(self, kernels: ModuleType, target: str) -> None:
        """Neither as an option nor as the loop's own, which peel iterations of the pipelined loop."""
        assert between(kernels.staged, target, BLOCK=(64, 256), num_stages=(1, 4)) == []

    @pytest.mark.parametrize("name", ["kept_where_large", "stored_if_large", "found"])
    def test_sums_that_choose_what_is_stored_count(self, kernels: ModuleType, name: str, target: str) -> None:
        """In masks, conditions and addresses."""
        told = between(getattr(kernels, name), target, BLOCK=(128, 256))
        assert "tt.reduce axis 0: elements along the axis 128 -> 256" in told[0]

    def test_loads_that_are_alike_are_told_apart_by_their_places(self, kernels: ModuleType, target: str) -> None:
        """In a sum that no loop makes, over elements that a number or an argument lies apart."""
        assert between(kernels.taps, target, REVERSED=(False, True), FAR=(False, False))
        assert between(kernels.taps, target, REVERSED=(False, True), FAR=(True, True))
        for far in (False, True):
            same = {"REVERSED": (True, True), "FAR": (far, far)}
            assert between(kernels.taps, target, BLOCK=(128, 1024), num_warps=(4, 8), **same) == []

    def test_counter_of_a_loop_and_place_in_its_tile_are_one_index(self, kernels: ModuleType, target: str) -> None:
        """A maximum, which any order gives, over tiles of any size."""
        assert between(kernels.largest_of_columns, "cuda:90", BLOCK=(128, 512), num_warps=(4, 8)) == []
        assert between(kernels.read_twice, "cuda:90", BLOCK=(128, 512), num_warps=(4, 8)) == []
        assert bool(between(kernels.largest_of_columns, target, BLOCK=(128, 512))) is target.startswith("hip")

    @pytest.mark.parametrize("name", ["chosen_by_place", "chosen_by_program"])
    def test_places_that_choose_the_arithmetic_count(self, kernels: ModuleType, name: str, target: str) -> None:
        """A program's number means other elements where its tile has another size, an index does not."""
        kernel = getattr(kernels, name)
        assert between(kernel, target, LIMIT=(1, 2))
        assert bool(between(kernel, target, BLOCK=(128, 512), LIMIT=(2, 2))) is (name == "chosen_by_program")
        assert between(kernel, target, num_warps=(4, 8), LIMIT=(2, 2)) == []

    def test_of_several_stores_to_one_place_the_last_counts(self, kernels: ModuleType, target: str) -> None:
        """So their order is part of the kernel's; stores to different places have none."""
        assert between(kernels.stored_twice, target, SWAPPED=(False, True))
        assert between(kernels.stored_twice, target, SWAPPED=(False, False), BLOCK=(128, 512)) == []
        assert between(kernels.halves, target, BLOCK=(128, 512), num_warps=(4, 8)) == []
        assert between(kernels.two_passes, target, SWAPPED=(False, True))

    def test_sum_through_memory_counts(self, kernels: ModuleType, target: str) -> None:
        """A loop that loads what it stored."""
        assert between(kernels.through_memory, target, BLOCK=(128, 256)) == [
            "store to 1: step of the counter 128 -> 256"
        ]

    def test_product_of_the_iteration_before_follows_the_tile(self, kernels: ModuleType, target: str) -> None:
        """Unrolling decides whether it is fused, and fusion can be switched off."""
        told = between(kernels.faded, target, BLOCK=(64, 4096))
        assert [text.split(" 64 ")[0] for text in told] == ["arith.addf: tile of a product that may be fused or not"]
        assert between(kernels.faded, target, BLOCK=(64, 4096), enable_fp_fusion=(False, False)) == []

    def test_numeric_options_count_where_floats_are_computed(self, kernels: ModuleType, target: str) -> None:
        """The IR does not show them."""
        assert between(kernels.doubled, target, enable_fp_fusion=(True, False)) == [
            "options: enable_fp_fusion True -> none"
        ]
        assert between(kernels.counted, target, enable_fp_fusion=(True, False)) == []
        name = "allow_flush_denorm" if target.startswith("hip") else "ptx_options"
        value = True if target.startswith("hip") else "--fmad=false"
        assert between(kernels.doubled, target, **{name: (None, value)}) == [f"options: {name} none -> {value}"]


class TestDots:
    """Which instruction multiplies is chosen by the tile and the warps."""

    @pytest.mark.parametrize(
        ("target", "changed", "family"),
        [
            ("cuda:90", {"BLOCK": (16, 64)}, "mma v2 -> mma v3 instruction K 16"),
            ("cuda:90", {"BLOCK": (64, 64), "num_warps": (2, 4)}, "mma v2 -> mma v3 instruction K 16"),
            ("cuda:100", {"BLOCK": (16, 64)}, "mma v2 -> mma v5 blockM = 64"),
            ("cuda:100", {"BLOCK": (64, 64), "num_warps": (2, 4)}, "mma v2 -> mma v5 blockM = 64"),
            (
                "hip:gfx942",
                {"BLOCK": (16, 64)},
                "amd_mfma v3 instruction [16, 16, 16] -> amd_mfma v3 instruction [32, 32, 8]",
            ),
        ],
    )
    def test_another_family_is_told(
        self, kernels: ModuleType, target: str, changed: dict[str, tuple[int, int]], family: str
    ) -> None:
        """By tile or by warps alone."""
        told = between(kernels.multiplied, target, **changed)
        assert told[0].startswith(f"tt.dot: family {family}")

    @pytest.mark.parametrize("target", TARGETS)
    def test_the_same_family_is_the_same_order(self, kernels: ModuleType, target: str) -> None:
        """Rows and columns of a tile are no part of a sum along K."""
        assert between(kernels.multiplied, target, BLOCK=(64, 64), num_warps=(4, 8)) == []
        if target != "cuda:100":  # whose instruction has the rows of the tile
            assert between(kernels.multiplied, target, BLOCK=(64, 128)) == []


class TestGrid:
    """An order that follows the number of programs."""

    def test_grid_counts_only_then(self, kernels: ModuleType) -> None:
        """Other kernels may have the grid that their block size asks for."""
        for kernel, expected in (
            (kernels.spread, "differs"),
            (kernels.spread_by_steps, "differs"),
            (kernels.doubled, "equal"),
        ):
            launches = [OrderedLaunch("kernel", order(kernel), grid) for grid in ((4,), (8,), (4, 2))]
            assert compare_orders(launches[:1], launches[:1]).verdict == "equal"
            assert compare_orders(launches[:1], launches[1:2]).verdict == expected
            assert compare_orders(launches[:1], launches[2:]).verdict == "equal"  # its loop follows another axis
        told = compare_orders(launches[:1], [launches[0]._replace(scalars=(("n", "7"),))])
        assert told == Order("differs", ("scalars () -> (('n', '7'),)",))


nodes = st.recursive(
    st.builds(Node, st.sampled_from("abc"), st.just(()), st.just(())),
    lambda inner: st.builds(
        Node,
        st.sampled_from("abc"),
        st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("12")), max_size=2, unique_by=lambda one: one[0]).map(
            tuple
        ),
        st.lists(st.tuples(st.sampled_from("pq"), inner), max_size=3).map(tuple),
    ),
    max_leaves=8,
)


class TestCarried:
    """What a loop combines, carries on and combines again."""

    def test_it_is_read_once(self, kernels: ModuleType) -> None:
        """Each time round it would be combined along another axis."""
        assert between(kernels.carried_past_a_sum, num_stages=(1, 3)) == []
        told = between(kernels.carried_past_a_sum, num_warps=(2, 4))
        assert any(line.startswith("tt.scan axis 0: ") for line in told)
        assert between(kernels.carried_past_a_sum, BLOCK=(128, 256)) != []


@pytest.mark.usefixtures("own_cache")
class TestKept:
    """Orders are kept in Triton's cache."""

    @pytest.fixture
    @staticmethod
    def own_cache(tmp_path: Path) -> Iterator[None]:
        """Begin with an empty cache."""
        with knobs.cache.scope():
            knobs.cache.dir = str(tmp_path)
            yield

    def test_it_is_read_back_unless_it_is_damaged(self, tmp_path: Path) -> None:
        """Other IR, options or files have none; what was cut short or changed is none."""
        shared = Node("b", (("x", "1"),))
        order = Fingerprint(Node("a", (), (("p", shared), ("q", Node("c", (), (("p", shared),))))), "", frozenset([1]))
        assert KeptOrder("ir").read() is None
        KeptOrder("ir").write(order)
        found = KeptOrder("ir").read()
        assert found is not None
        assert (found.digest, found.grid_axes, differences(found, order)) == (order.digest, frozenset([1]), [])
        assert KeptOrder("other ir").read() is None
        (file,) = tmp_path.rglob("kernelqual-order.json")
        whole = file.read_bytes()
        for damaged in (whole[:-9], whole.replace(b'"c"', b'"d"'), b"null", b"", whole.replace(b'"unknown":""', b"")):
            file.write_bytes(damaged)
            assert KeptOrder("ir").read() is None
        file.unlink()
        file.mkdir()
        assert KeptOrder("ir").read() is None
        KeptOrder("ir").write(order)

    def test_cache_that_cannot_be_written(self) -> None:
        """Holds nothing, and nobody minds."""
        knobs.cache.dir = "/dev/null/cache"
        KeptOrder("ir").write(Fingerprint(None, "why"))
        assert KeptOrder("ir").read() is None
        assert is_cached("00" * 32, "a kernel") is False

    def test_what_is_unknown(self) -> None:
        """Stays so, with its reason."""
        KeptOrder("ir").write(Fingerprint(None, "why"))
        assert KeptOrder("ir").read() == Fingerprint(None, "why")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(nodes)
    def test_any_order(self, root: Node) -> None:
        """Comes back."""
        KeptOrder(root.digest).write(Fingerprint(root))
        found = KeptOrder(root.digest).read()
        assert found is not None
        assert differences(found, Fingerprint(root)) == []
        assert found.digest == Fingerprint(root).digest

    def test_launches(self, kernels: ModuleType, tmp_path: Path) -> None:
        """Are known once all of them are compiled, and no longer when one is not."""
        with fake_driver(TARGETS["cuda:90"]), dry_run() as run:
            for kernel in (kernels.doubled, kernels.tripled, kernels.doubled):
                kernel[(4,)](torch.empty(512), torch.empty(512), torch.empty(512), 512, BLOCK=128)
            kept = [KeptLaunches("space", "spec", number) for number in range(2)]
        needed = [launch.specialisation for launch in run.launches]
        assert kept[0].read() is None
        kept[0].write(needed)
        needed[0].compile()
        assert kept[0].read() is None
        needed[1].compile()
        assert kept[0].read() == [one.key for one in needed]
        assert kept[1].read() is None
        for file in tmp_path.glob(f"{get_cache_manager(needed[1].key).key}/*"):
            file.unlink()
        assert kept[0].read() is None


# Laws.

launches = st.lists(
    st.builds(
        OrderedLaunch,
        st.sampled_from(["k", "l"]),
        st.one_of(
            st.builds(Fingerprint, nodes, st.just(""), st.frozensets(st.sampled_from([0, 1]))),
            st.just(Fingerprint(None, "why")),
        ),
        st.sampled_from([None, (1,), (2,)]),
        st.sampled_from([(), ((("n", "1"),))]),
    ),
    max_size=3,
)


@given(nodes, nodes)
def test_something_is_named_exactly_where_slices_differ(a: Node, b: Node) -> None:
    """Whichever side is first."""
    found = differences(Fingerprint(a), Fingerprint(b))
    assert bool(found) is (a.digest != b.digest)
    assert bool(found) is bool(differences(Fingerprint(b), Fingerprint(a)))
    assert len(found) <= 3


@given(launches, launches)
def test_comparison_has_no_side(a: list[OrderedLaunch], b: list[OrderedLaunch]) -> None:
    """Swapped, the verdict is the same; a reason is given for all but equality."""
    told = compare_orders(a, b)
    assert told.verdict == compare_orders(b, a).verdict
    assert bool(told.reasons) is (told.verdict != "equal")
    if not a or not b or any(launch.fingerprint.slices is None for launch in (*a, *b)):
        assert told.verdict == "unknown"
