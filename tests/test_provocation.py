"""Provocation: what the driver is told, what a launch that shows under it gets, and that it never fails by itself."""

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from scenarios import OPS, run_pytest, write

from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import Opened, Tried
from pytest_kernelqual.model.spec import KernelSpec, kernel_spec
from pytest_kernelqual.on_device import cuda_driver, provocation
from pytest_kernelqual.on_device.environment import Device
from pytest_kernelqual.on_device.executor import Executor
from pytest_kernelqual.on_device.memory import PATTERN_A, PATTERN_B
from pytest_kernelqual.on_device.provocation import Provocation
from pytest_kernelqual.on_device.provoking_ptx import source
from pytest_kernelqual.on_device.qualify import OpenCase

PTXAS = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
CUDA = Device("cuda", torch.device("cuda", 0))
CPU = Device("interpreter", torch.device("cpu"))
SIDE_STREAM = 1 << 42


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_kernels_compile_and_keep_what_they_are_for(tmp_path: Path, architecture: str) -> None:
    """The compiler neither drops the values that are to be left in registers nor moves them to memory."""
    (tmp_path / "kernels.ptx").write_bytes(source())
    command = [PTXAS, "-v", "--gpu-name", architecture, tmp_path / "kernels.ptx", "-o", tmp_path / "kernels.cubin"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    used = dict(
        zip(re.findall(r"entry function '(\w+)'", told), re.findall(r"Used (\d+) registers", told), strict=True)
    )
    assert 48 <= int(used["kernelqual_dirty"]) <= 64
    assert int(used["kernelqual_noise"]) <= 32
    assert told.count("0 bytes spill stores, 0 bytes spill loads") == 2


class FakeDriver:
    """Stand in for the library of the CUDA driver: note launches, and refuse what it is told to refuse.

    Its functions are called through ctypes as those of a real library are.
    """

    def __init__(self, refused: str = "") -> None:
        """Refuse one function."""
        self.launches: list[tuple[str, int, int, int, int, list[int]]] = []
        self.word = ctypes.c_uint32(7)
        self.words_at_launch: list[int] = []
        self.synchronized: list[int] = []
        self._refused = refused
        self._names: dict[int, str] = {}

    def library(self) -> SimpleNamespace:
        """Return the functions by name."""
        return SimpleNamespace(**{name: self._function(name, types) for name, types in cuda_driver._CALLS.items()})

    def _function(self, name: str, types: tuple[Any, ...]) -> Any:
        def call(*arguments: Any) -> int:
            if name == self._refused:
                return 999
            getattr(self, f"_{name}", lambda *_: None)(*arguments)
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *types)(call)

    def _cuDeviceGetAttribute(self, value: int, which: int, _device: int) -> None:  # noqa: N802
        ctypes.c_int.from_address(value).value = {16: 132, 97: 232448}[which]

    def _cuModuleLoadData(self, module: int, ptx: bytes) -> None:  # noqa: N802
        assert ptx == source()
        ctypes.c_void_p.from_address(module).value = 1 << 40

    def _cuModuleGetFunction(self, function: int, module: int, name: bytes) -> None:  # noqa: N802
        assert module == 1 << 40
        handle = (1 << 41) + len(self._names)
        ctypes.c_void_p.from_address(function).value = handle
        self._names[handle] = name.decode()

    def _cuStreamCreate(self, stream: int, flags: int) -> None:  # noqa: N802
        assert flags == 1  # else the legacy default stream would wait for it
        ctypes.c_void_p.from_address(stream).value = 1 << 42

    def _cuMemHostAlloc(self, host: int, size: int, flags: int) -> None:  # noqa: N802
        assert (size, flags) == (4, 2)
        ctypes.c_void_p.from_address(host).value = ctypes.addressof(self.word)

    def _cuMemHostGetDevicePointer_v2(self, address: int, host: int, flags: int) -> None:  # noqa: N802
        assert (host, flags) == (ctypes.addressof(self.word), 0)
        ctypes.c_void_p.from_address(address).value = 0xABC000

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:  # noqa: N802
        blocks, *_, threads, _, _, shared_bytes, stream, pointers, extra = rest
        assert extra is None
        name = self._names[function]
        sizes = {"kernelqual_dirty": (4, 4, 8), "kernelqual_noise": (8, 8)}[name]
        places = (ctypes.c_void_p * len(sizes)).from_address(pointers)
        values = [
            int.from_bytes(ctypes.string_at(place or 0, size), "little")
            for place, size in zip(places, sizes, strict=True)
        ]
        self.launches.append((name, blocks, threads, shared_bytes, stream or 0, values))
        self.words_at_launch.append(self.word.value)

    def _cuStreamSynchronize(self, stream: int) -> None:  # noqa: N802
        self.synchronized.append(stream)


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for what torch does on a GPU; returns what was waited for."""
    found: list[str] = []
    stream = SimpleNamespace(cuda_stream=5, synchronize=lambda: found.append("stream"))
    cuda = SimpleNamespace(
        device=lambda _: nullcontext(),
        current_stream=lambda _: stream,
        synchronize=lambda _: found.append("device"),
    )
    monkeypatch.setattr(provocation, "torch", SimpleNamespace(cuda=cuda))
    return found


def test_driver_is_told_to_dirty_before_and_to_make_noise_during_a_launch(waited: list[str]) -> None:
    """On the launch's own stream and beside it; the noise has ended when the block has."""
    driver = FakeDriver()
    provoking = Provocation(CUDA, wanted=True, library=driver.library)
    with provoking.around(PATTERN_B) as done:
        assert done == ["dirty"]
    dirty = ("kernelqual_dirty", 264, 1024, 232448, 5, [0x5A5A5A5A, 232448, 0])
    assert driver.launches == [dirty]
    assert driver.synchronized == []

    driver.word.value = 1  # of an earlier noise
    with provoking.around(PATTERN_A, noise=True) as done:
        assert done == ["dirty", "noise"]
        assert driver.word.value == 0
        assert driver.synchronized == []
    assert driver.launches[1:] == [
        ("kernelqual_dirty", 264, 1024, 232448, 5, [0xFFFFFFFF, 232448, 0]),
        ("kernelqual_noise", 66, 256, 115712, SIDE_STREAM, [0xABC000, 2_000_000]),
    ]
    assert driver.words_at_launch[-1] == 0
    assert (driver.word.value, driver.synchronized) == (1, [SIDE_STREAM])
    assert waited == ["device", "stream"]
    assert provoking.told == (
        "227 KiB of shared memory and registers dirtied on 132 multiprocessors, noise of up to 2000 us"
    )


@pytest.mark.usefixtures("waited")
def test_noise_ends_when_the_launch_raises() -> None:
    """The error stays the launch's own."""
    driver = FakeDriver()
    provoking = Provocation(CUDA, wanted=True, library=driver.library)
    with pytest.raises(ZeroDivisionError), provoking.around(PATTERN_A, noise=True):
        raise ZeroDivisionError
    assert (driver.word.value, driver.synchronized) == (1, [SIDE_STREAM])


@pytest.mark.usefixtures("waited")
@pytest.mark.parametrize(
    "refused", ["cuCtxGetDevice", "cuModuleLoadData", "cuFuncSetAttribute", "cuMemHostAlloc", "cuLaunchKernel"]
)
def test_driver_that_refuses_switches_provocation_off(refused: str) -> None:
    """It is no failure of the kernel under test, and the report tells it."""
    provoking = Provocation(CUDA, wanted=True, library=FakeDriver(refused).library)
    for _ in range(2):
        with provoking.around(PATTERN_A, noise=True) as done:
            assert done == []
    assert provoking.told == f"off: {refused} of the CUDA driver returned 999"


@pytest.mark.usefixtures("waited")
def test_driver_that_fails_while_noise_ends_is_no_failure_either() -> None:
    """A fault of the launch is what the device tells next."""
    provoking = Provocation(CUDA, wanted=True, library=FakeDriver("cuStreamSynchronize").library)
    with provoking.around(PATTERN_A, noise=True) as done:
        assert done == ["dirty", "noise"]
    assert provoking.told == "off: cuStreamSynchronize of the CUDA driver returned 999"


@pytest.mark.parametrize(
    ("device", "wanted", "told"),
    [(CPU, True, ""), (CUDA, False, "off"), (Device("hip", torch.device("cuda", 0)), True, "off: not made for hip")],
)
def test_nothing_is_done_where_it_cannot_or_must_not(device: Device, told: str, *, wanted: bool) -> None:
    """Nothing of the driver is loaded."""
    provoking = Provocation(device, wanted=wanted, library=lambda: pytest.fail("the driver was loaded"))
    with provoking.around(PATTERN_A, noise=True) as done:
        assert done == []
    assert provoking.told == told


class Simulated(Provocation):
    """Leave behind on a CPU what a GPU would."""

    leftover = 0
    busy = False
    launches = 0

    def __init__(self) -> None:
        """Make none on the real device."""
        super().__init__(CPU, wanted=True)

    @contextmanager
    def around(self, pattern: int, *, noise: bool = False) -> Iterator[list[str]]:
        """Keep the byte where launches below find it."""
        Simulated.leftover, Simulated.busy = pattern, noise
        Simulated.launches += 1
        yield ["dirty", "noise"] if noise else ["dirty"]


def qualified(*faults: str, fixed: str = "none", repeats: int = 4) -> tuple[Opened, list[Tried]]:
    """Open a case whose fixed launch has one fault, and try candidates with others."""

    @kernel_spec(candidates=[Config(FAULT=fault) for fault in faults], cases=[Case(n=8)])
    def leaking(case: Any, seeded: Any) -> Any:
        x = seeded.normal((case.n,), name="x")

        def launch(config: Any) -> Any:
            fault = config["FAULT"] if config else fixed
            y = x * 2
            if fault == "shared":  # what a kernel finds in shared memory decides
                y[3] += Simulated.leftover
            elif fault == "copied":
                y.view(torch.uint8)[:4] = Simulated.leftover
            elif fault == "race" and Simulated.busy:
                y[5] = 0
            elif fault == "restless":
                y[4] = Simulated.launches
            elif fault == "memory":
                y[2] = torch.empty_like(x)[2] * 0.5
            return y

        return launch

    spec: KernelSpec = leaking
    executor = Executor(
        spec,
        spec.cases[0],
        stream="provoked",
        device=CPU,
        on_progress=lambda *_: None,
        provocation=Simulated(),
    )
    opened = OpenCase(executor, repeats=repeats)
    reply = opened.open()
    return reply, [opened.attempt(Config(FAULT=fault)) for fault in faults] if reply.outcome == "qualified" else []


def test_what_only_provocation_shows_is_named() -> None:
    """Which memory was read, and that only the noise showed the race."""
    opened, tried = qualified("none", "shared", "copied", "race", "memory", "restless")
    assert (opened.outcome, opened.provocation) == ("qualified", ["dirty", "dirty+noise", "dirty"])
    assert [one.outcome for one in tried] == ["qualified", *["nondeterministic"] * 5]
    none, shared, copied, race, memory, restless = tried
    assert none.provocation == ["dirty", "dirty", "dirty+noise", "dirty+noise"]
    assert none.launches == 4
    for leaking in (shared, copied):
        assert leaking.reason.startswith("reads uninitialised shared memory or registers: the bytes change with what")
    assert "2 of 4 launches differ from the fixed launch, only beside the noise kernel: a race, or a" in race.reason
    assert memory.reason.startswith("reads uninitialised memory: the bytes change with the poison")
    assert restless.reason.startswith("launches on the same inputs gave different bytes (4 of 4 launches differ")


def test_two_repeats_have_no_noise() -> None:
    """Each pattern has one launch, which noise would blur."""
    _, (tried,) = qualified("race", repeats=2)
    assert (tried.outcome, tried.provocation) == ("qualified", ["dirty", "dirty"])


@pytest.mark.parametrize(
    ("fixed", "reason"),
    [
        ("shared", "the fixed launch reads uninitialised shared memory or registers"),
        ("race", "gave different bytes (one ran beside the noise kernel: a race?)"),
        ("memory", "the fixed launch reads uninitialised memory: its bytes change with the poison"),
    ],
)
def test_a_fixed_launch_is_provoked_too(fixed: str, reason: str) -> None:
    """It is no reference then."""
    opened, _ = qualified("none", fixed=fixed)
    assert opened.outcome == "nondeterministic"
    assert reason in opened.reason


def test_switch_reaches_the_report(tmp_path: Path) -> None:
    """The option wins over the ini value; a wrong value is refused; the interpreter has nothing to provoke."""
    spec = """
        from ops import double, double_kernel
        from pytest_kernelqual import Case, grid, kernel_spec

        @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32]), cases=[Case(n=100)])
        def doubled(case, seeded):
            x = seeded.normal((case.n,), name="x")
            return lambda: double(x)
    """
    write(tmp_path, {"ops.py": OPS, "qual_ops.py": spec, "pytest.ini": "[pytest]\nkernelqual_provocation = perhaps\n"})
    refused = run_pytest(tmp_path, "qual_ops.py")
    assert refused.status == 4
    assert "ini kernelqual_provocation='perhaps': must be on or off" in refused.output
    ran = run_pytest(tmp_path, "qual_ops.py", "--kernelqual-provocation=on")
    assert ran.status == 0
    assert ran.report["environment"]["provocation"] == ""
    (case,) = ran.cases.values()
    assert (case["fixed"]["provocation"], case["candidates"][0]["provocation"]) == ([], [])


SUITE = Path(__file__).parent / "suites" / "provoked_on_gpu"
COMPILE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import provoked, qual_provoked, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

VARIANTS = [
    (provoked._shared, "FAULT", ("none", "reads_shared", "copies_shared", "masked_shared"), 8),
    (provoked._exchange, "BARRIER", (True, False), 8),
    (provoked._neighbours, "MODE", ("none", "barrier", "hopes"), 32),
]
for kernel, name, values, warps in VARIANTS:
    pointer = "*i32" if kernel is provoked._neighbours else "*fp32"
    types = {arg: "constexpr" if arg == name else "i32" if arg == "programs" else pointer for arg in kernel.arg_names}
    for value in values:
        source = ASTSource(fn=kernel, signature=types, constexprs={name: value})
        triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
for name, candidates in json.load(open(sys.argv[1] + "/expected.json")).items():
    spec = getattr(qual_provoked, name)
    assert spec.error is None, spec.error
    assert candidates.keys() == {config.id for config in spec.candidates}, name
print("compiled")
"""


def test_the_suite_for_gpus_compiles_and_says_what_it_expects() -> None:
    """It runs where there is a GPU, and is kept working here."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILE, str(SUITE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "compiled\n"), done.stderr
