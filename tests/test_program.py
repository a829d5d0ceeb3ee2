"""What is known of a candidate by what it would launch: never too much, under a device that computes on the CPU."""

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from pretended_device import PretendedDevice, PretendedDriver, opened, pretended
from triton.backends.compiler import GPUTarget

from pytest_kernelqual.errors import UnknownProgramError
from pytest_kernelqual.launch import Lasting, Look, Program, describe_kernel, observed
from pytest_kernelqual.launch.storages import Storages
from pytest_kernelqual.launch.trace import call_trace
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import Tried
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.on_device.failed import LaunchFailed

SUITE = Path(__file__).parent / "suites" / "evidence"
TARGETS = {"cuda": GPUTarget("cuda", 90, 32), "hip": GPUTarget("hip", "gfx942", 64)}
# What depends on the compiler; all else is the same for every target.
COMPILED = ("stages", "grid_only", "scalar_only", "fusion", "cooperative")


@pytest.fixture(scope="module")
def suite() -> Iterator[ModuleType]:
    """Give the specs."""
    sys.path.insert(0, str(SUITE))
    import qual_traps  # noqa: PLC0415 - its folder is on the path now

    yield qual_traps
    sys.path.remove(str(SUITE))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the folder of compiled code."""
    return str(tmp_path_factory.mktemp("triton"))


@pytest.fixture
def device(cache: str) -> Iterator[PretendedDevice]:
    """Give a CUDA device."""
    with pretended(TARGETS["cuda"], cache) as made:
        yield made


def tried_all(spec: KernelSpec, device: PretendedDevice) -> dict[str, Tried]:
    """Try every candidate, and check that what says that it was launched was."""
    case, fixed = opened(spec, spec.cases[0], device)
    assert fixed.outcome == "qualified", fixed.reason
    found = {}
    for config in spec.candidates or describe_kernel(spec.kernel).configs:
        before = PretendedDriver.launches
        found[config.id] = tried = case.attempt(config, look=True)
        assert (PretendedDriver.launches > before) is (tried.launches > 0)
    return found


def shown(tried: Tried) -> str:
    """Return an attempt as the suite expects it."""
    if tried.same_program_as:
        return f"{tried.evidence or tried.outcome} as {tried.same_program_as}"
    if tried.evidence == "identical_binary" and tried.launches:
        return "identical_binary run"
    return tried.evidence or tried.outcome


def pairs() -> list[Any]:
    """Return the specs of the suite, for each target that matters."""
    sys.path.insert(0, str(SUITE))
    try:
        from qual_traps import EXPECTED  # noqa: PLC0415 - its folder is on the path now
    finally:
        sys.path.remove(str(SUITE))
    return [(name, "cuda") for name in EXPECTED] + [(name, "hip") for name in COMPILED]


@pytest.mark.parametrize(("name", "target"), pairs())
def test_suite(suite: ModuleType, cache: str, name: str, target: str) -> None:
    """Each candidate gets the evidence that it deserves, and only the fixed launch's own program is not run."""
    with pretended(TARGETS[target], cache) as device:
        found = tried_all(getattr(suite, name), device)
    expected = suite.EXPECTED[name]
    assert found.keys() == expected.keys()
    assert [id_ for id_, tried in found.items() if shown(tried) not in expected[id_].split(" or ")] == []


def seen_on(spec: KernelSpec, device: PretendedDevice, *streams: str) -> tuple[list[Tried], list[int]]:
    """Try the last candidate on input sets that share what was seen, and count the looks on each."""
    found, counts = [], []
    lasting = Lasting()
    assert spec.candidates is not None
    for stream in streams:
        case, _ = opened(spec, spec.cases[0], device, stream=stream)
        case.executor.lasting = lasting
        looks: list[Config | None] = []
        look = case.executor.look

        def counted(config: Config | None, looks: Any = looks, look: Any = look) -> Any:
            looks.append(config)
            return look(config)

        case.executor.look = counted  # type: ignore[method-assign]
        found.append(case.attempt(spec.candidates[-1], look=True))
        counts.append(len(looks))
    return found, counts


def test_candidates_are_what_they_were_where_the_fixed_launch_is(suite: ModuleType, device: PretendedDevice) -> None:
    """On another input set the fixed launch alone is looked at; what is told is the same."""
    found, looks = seen_on(suite.reshaped, device, "0/0", "0/1")
    assert looks == [2, 1]
    assert found[0] == found[1]
    assert found[0].evidence == "identical_binary"


@pytest.mark.parametrize("first", [0, 1])
def test_number_that_the_fixed_launch_does_not_show(suite: ModuleType, device: PretendedDevice, first: int) -> None:
    """Only the grid of this candidate follows it, so that the fixed launch is the same program on both input sets."""
    streams = {_seed_of(f"0/{number}") % 2: f"0/{number}" for number in range(64)}
    order = (first, 1 - first)
    found, looks = seen_on(suite.more_programs, device, *(streams[parity] for parity in order))
    assert looks == [2, 2]
    told = {parity: tried.evidence for parity, tried in zip(order, found, strict=True)}
    assert told == {0: "identical_binary", 1: "identical_order"}


def _seed_of(stream: str) -> int:
    return int.from_bytes(hashlib.sha256(f"seed\0{stream}".encode()).digest()[:4], "little")


def test_launch_that_takes_the_config_is_looked_at_each_time(suite: ModuleType, device: PretendedDevice) -> None:
    """What it does with the config may follow what the fixed launch does not."""
    assert seen_on(suite.touch, device, "0/0", "0/1")[1] == [2, 2]


def test_fault_of_a_look_ends_the_process(suite: ModuleType, device: PretendedDevice) -> None:
    """Whether it was the candidate's or the fixed launch's, the device cannot be used any more."""
    for faulty in (None, Config(num_warps=8)):
        case, _ = opened(suite.stages, suite.stages.cases[0], device)
        look = case.executor.look

        def faulting(config: Config | None, faulty: Config | None = faulty, look: Any = look) -> Program:
            if config == faulty:
                raise LaunchFailed("fault", "an illegal memory access", {}, fatal=True)
            found: Program = look(config)
            return found

        case.executor.look = faulting  # type: ignore[method-assign]
        tried = case.attempt(Config(num_warps=8), look=True)
        assert (tried.outcome, tried.fatal, tried.launches) == ("fault", True, 0)


def test_nothing_is_known_unless_it_is_asked_for(suite: ModuleType, device: PretendedDevice) -> None:
    """Without a look every candidate runs."""
    case, _ = opened(suite.stages, suite.stages.cases[0], device)
    tried = case.attempt(Config(num_warps=4, num_stages=1))
    assert (tried.launches, tried.evidence, tried.program) == (3, "identical_bytes", "")


def test_own_config_of_the_fixed_launch_is_said_to_be_that(suite: ModuleType, device: PretendedDevice) -> None:
    """Whether it runs or not."""
    case, _ = opened(suite.stages, suite.stages.cases[0], device)
    own, other = (case.attempt(Config(num_warps=4, num_stages=stages), look=True) for stages in (3, 1))
    assert (own.same_as_fixed, other.same_as_fixed) == (True, False)
    assert own.resources == other.resources == {"shared_bytes": 0, "num_warps": 4, "registers": 32, "spills": 0}


def test_duplicate_of_a_candidate_that_could_not_be_run_is_run(suite: ModuleType, device: PretendedDevice) -> None:
    """What kept the first one from running may not keep the second."""
    case, _ = opened(suite.stages, suite.stages.cases[0], device)
    execute = case.executor.execute
    case.executor.execute = _out_of_memory  # type: ignore[method-assign]
    first = case.attempt(Config(num_warps=8, num_stages=1), look=True)
    case.executor.execute = execute  # type: ignore[method-assign]
    second = case.attempt(Config(num_warps=8, num_stages=2), look=True)
    assert (first.outcome, second.outcome, second.launches) == ("not_run", "qualified", 3)


def _out_of_memory(*_args: Any, **_options: Any) -> Any:
    raise LaunchFailed("not_run", "out of memory", {})


def test_candidate_that_does_not_compile_is_compiled_once(suite: ModuleType, device: PretendedDevice) -> None:
    """A look tells of it as a run would."""
    case, _ = opened(suite.limited, suite.limited.cases[0], device)
    case.attempt(Config(BLOCK=64), look=True)
    phases: list[str] = []
    case.executor._on_progress = lambda phase, _launches: phases.append(phase)
    with_look = case.attempt(Config(BLOCK=128), look=True)
    assert phases.count("compile") == 1
    without = case.attempt(Config(BLOCK=128))
    assert (with_look.outcome, with_look.reason, with_look.phase) == (without.outcome, without.reason, without.phase)
    assert with_look.outcome == "compile_error"


def traced(run: Any, *inputs: torch.Tensor, launched: int = 0, lasting: Storages | None = None) -> list[Any]:
    """Return the events of a call."""
    trace = call_trace(inputs, device=torch.device("cpu"), lasting=lasting or Storages(), launched=lambda: launched)
    with trace.whole():
        run(*inputs)
    return trace.events


def program_of(suite: ModuleType, call: Any, device: PretendedDevice, config: Config | None = None) -> Program:
    """Return the program of a call on one tensor."""
    x = torch.zeros(100)
    look = Look(suite.traps.scaled, [x], device=device.torch_device, lasting=Lasting())
    with look.kept_back(), observed(suite.traps.scaled, config) as log, look.traced():
        call(x)
    return look.program(log, [])


def test_launch_past_the_kernel_object_is_not_known(suite: ModuleType, device: PretendedDevice) -> None:
    """Such as from a library's own launch cache, beside one that is seen."""
    scale = suite.traps.scale
    assert program_of(suite, scale, device).launches[0].config["BLOCK"] == 64
    kernel = suite.traps.scaled.warmup(torch.zeros(100), torch.zeros(100), 100, 2.0, BLOCK=64, SPARE=1, grid=(2,))

    def past(x: torch.Tensor) -> None:
        kernel[(2, 1, 1)](x, scale(x), 100, 2.0)

    with pytest.raises(UnknownProgramError, match="1 launches went past their kernel objects"):
        program_of(suite, past, device)


def test_kernel_that_is_not_launched_is_not_known(suite: ModuleType, device: PretendedDevice) -> None:
    """The config was not carried: nothing is known of it."""
    with pytest.raises(UnknownProgramError, match="the kernel scaled was never launched"):
        program_of(suite, lambda x: suite.traps.add_into(x, x), device)


def test_argument_that_cannot_be_described_is_not_known(suite: ModuleType, device: PretendedDevice) -> None:
    """Memory of another library, say."""

    class Foreign:
        dtype = torch.float32

        def data_ptr(self) -> int:
            return 0

    def launch(x: torch.Tensor) -> None:
        suite.traps.scaled[(2,)](Foreign(), x, 100, 2.0, BLOCK=64, SPARE=1)

    with pytest.raises(UnknownProgramError, match="argument x of scaled cannot be described"):
        program_of(suite, launch, device)


def _in_spite_of_all(x: torch.Tensor) -> None:
    try:
        x.sum().item()
    except:  # noqa: E722 - as production code may
        x.fill_(-1.0)


def _failing_without(x: torch.Tensor) -> None:
    total = None
    with contextlib.suppress(BaseException):
        total = x.sum().item()
    assert total is not None


X = torch.arange(6.0)
LARGE = [torch.zeros(1 << 19) for _ in range(2)]  # 2 MiB each
REFUSED = {
    "value": (lambda x: x.sum().item(), "aten::_local_scalar_dense reads values"),
    "truth": (lambda x: bool((x > 0).all()), "aten::_local_scalar_dense reads values"),
    "equality": (lambda x: torch.equal(x, x), "aten::equal reads values"),
    "print": (str, "a tensor is printed, which reads its values"),
    "choice": (lambda x: x[x > 0], "aten::index.Tensor gives a shape"),
    "indices": (torch.nonzero, "aten::nonzero gives a shape"),
    "distinct": (torch.unique, "aten::_unique2 gives a shape"),
    "noise": (torch.rand_like, "aten::rand_like draws random numbers"),
    "dropout": (torch.nn.functional.dropout, "draws random numbers"),
    "assertion": (lambda x: torch._assert_async(x.sum() > 0), "aten::_assert_async tests values"),
    "number of an operator that torch has not marked": (lambda x: x.is_set_to(x), "aten::is_set_to reads values"),
    "sparse": (lambda x: x.to_sparse(), "layout torch.sparse_coo cannot be described|gives a shape"),
    "failed for want of it": (_failing_without, "aten::_local_scalar_dense reads values"),
    "caught": (_in_spite_of_all, "aten::_local_scalar_dense reads values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_call_that_lets_host_code_see_results_ends_the_trace(name: str) -> None:
    """Kernels were kept back, so that what it would see is not what production sees."""
    run, reason = REFUSED[name]
    x = X.clone()
    with pytest.raises(UnknownProgramError, match=reason):
        traced(run, x)
    assert torch.equal(x, X)


EQUAL = {
    "same": (lambda x: x.mul(2).add(1), lambda x: x.mul(2).add(1), True),
    "number": (lambda x: x.mul(2), lambda x: x.mul(3), False),
    "type of number": (lambda x: x.mul(2), lambda x: x.mul(2.0), False),
    "sign of zero": (lambda x: x.mul(0.0), lambda x: x.mul(-0.0), False),
    "order": (lambda x: (x.mul(2), x.add(1)), lambda x: (x.add(1), x.mul(2)), False),
    "one more": (lambda x: x.mul(2), lambda x: x.mul(2).neg(), False),
    "storage": (lambda x: x.clone().add_(x), lambda x: x.clone() is None or x.add_(x), False),
    "offset": (lambda x: x[:3].neg(), lambda x: x[3:].neg(), False),
    "strides": (lambda x: x.view(2, 3).t().neg(), lambda x: x.view(3, 2).neg(), False),
    "dtype": (lambda x: x.to(torch.float16), lambda x: x.to(torch.bfloat16), False),
    "size of scratch": (lambda x: x.new_empty(3), lambda x: x.new_empty(4), False),
    "memory used again": (lambda x: (x.neg(), x.abs()), lambda x: x.neg() is None or x.abs(), True),
    "equal constants": (lambda x: x + torch.tensor([1.0]), lambda x: x + torch.tensor([1.0]), True),
    "other constants": (lambda x: x + torch.tensor([1.0]), lambda x: x + torch.tensor([2.0]), False),
    "one large table": (lambda _: LARGE[0].neg(), lambda _: LARGE[0].neg(), True),
    "two large tables": (lambda _: LARGE[0].neg(), lambda _: LARGE[1].neg(), False),
    "table again": (lambda _: LARGE[0] + LARGE[1], lambda _: LARGE[0] + LARGE[0], False),
}


@pytest.mark.parametrize("name", EQUAL)
def test_traces_differ_where_calls_do(name: str) -> None:
    """Names, shapes, dtypes, strides, scalars, and which tensor is which."""
    first, second, equal = EQUAL[name]
    lasting = Storages()
    assert (traced(first, X.clone(), lasting=lasting) == traced(second, X.clone(), lasting=lasting)) is equal


def test_operator_that_cannot_be_looked_into_is_not_run_on_results_that_nobody_computed() -> None:
    """It might take them for indices; before the first launch everything is computed."""
    weights = torch.zeros(4, 4)
    assert traced(torch.ops.quantized.embedding_bag_byte_prepack, weights)
    with pytest.raises(UnknownProgramError, match="embedding_bag_byte_prepack, whose work cannot be seen, follows"):
        traced(torch.ops.quantized.embedding_bag_byte_prepack, weights, launched=1)


def test_place_among_launches_counts() -> None:
    """The same operator before and after a launch."""
    assert traced(torch.neg, X.clone()) != traced(torch.neg, X.clone(), launched=1)


def test_named_ranges_of_a_profiler_are_no_calls() -> None:
    """They neither read nor compute."""

    def ranged(x: torch.Tensor) -> None:
        with torch.profiler.record_function("a range"):
            x.neg()

    assert traced(ranged, X.clone(), launched=1) == traced(torch.neg, X.clone(), launched=1)


def test_note_of_something_that_cannot_be_compared() -> None:
    """What a launch returned is part of its trace."""
    trace = call_trace([], device=torch.device("cpu"), lasting=Storages(), launched=lambda: 0)
    trace.note("return", X)
    assert trace.events[-1][0] == "return"
    with pytest.raises(UnknownProgramError, match=r"a builtins\.object cannot be described"):
        trace.note("return", object())
