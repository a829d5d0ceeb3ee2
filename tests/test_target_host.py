"""What production hears of its device while it is compiled for one that is not there."""

from pathlib import Path

import pytest
from acceptance import assert_agree, run

from pytest_kernelqual.model.targets import find_target

SPEC = """
import torch, triton, triton.language as tl
from triton.runtime.driver import driver
from pytest_kernelqual import Case, Config, kernel_spec

@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

def properties():
    return driver.active.utils.get_device_properties(driver.active.get_current_device())

try:
    SHARED = properties()["max_shared_mem"]
    BUILT_FOR = "hip" if torch.version.hip else "cuda" if torch.version.cuda else "nothing"
    MAJOR, UNITS = torch.cuda.get_device_capability()[0], torch.cuda.get_device_properties(0).multi_processor_count
except Exception:  # under the interpreter
    SHARED, BUILT_FOR, MAJOR, UNITS = 0, "nothing", 0, 1

def copy(x, units=UNITS):
    y = torch.empty_like(x)
    with torch.cuda.device(x.device) if SHARED else torch.inference_mode(False):
        _copy[(units,)](x, y, x.numel(), BLOCK=64)
    return y

def told(value):
    raise ValueError(value)

def spec(builder):
    return kernel_spec(kernel=_copy, candidates=[Config(num_warps=8)], cases=[Case(n=512)])(builder)

@spec
def plain(case, seeded):
    x = seeded.normal((case.n,))
    return lambda: copy(x)

@spec
def answers(case, seeded):
    x = seeded.normal((case.n,))
    heard = (BUILT_FOR, MAJOR, UNITS, SHARED, torch.cuda.device_count(), torch.cuda.is_available())
    return lambda: told(heard) if SHARED else copy(x)

@spec
def memory(case, seeded):
    x = seeded.normal((case.n,))
    return lambda: copy(x, torch.cuda.get_device_properties(0).total_memory if SHARED else 1)

@spec
def driver_memory(case, seeded):
    x = seeded.normal((case.n,))
    return lambda: copy(x, properties()["mem_clock_rate"] if SHARED else 1)

@spec
def no_such_property(case, seeded):
    x = seeded.normal((case.n,))
    return lambda: copy(x, getattr(torch.cuda.get_device_properties(0), "of_another_torch", 1) if SHARED else 1)
"""
UNKNOWN = "{} of the device was asked for, and is not known of {}"


def test_answers(tmp_path: Path) -> None:
    """At import and at launches, by torch and by Triton's driver; what is not known is told in one line."""
    (tmp_path / "qual_asking.py").write_text(SPEC)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nkernelqual_paths = .\nkernelqual_target = cuda:90, NVIDIA A30, AMD Instinct MI300A\n"
    )
    ended = run(tmp_path, TRITON_CACHE_DIR=str(tmp_path / "cache"))
    assert ended.code == 0, ended.text
    heard = {
        nodeid.split("::")[1]: {record.target: record.launches[0] for record in case.targets}
        for nodeid, case in ended.cases.items()
    }
    expected = {
        "cuda:90": ("cuda", 9, 132, 232448, 1, True),
        "cuda:80": ("cuda", 8, 56, 166912, 1, True),
        "hip:gfx942": ("hip", 9, 228, 65536, 1, True),
    }
    assert heard.keys() == {"plain", "answers", "memory", "driver_memory", "no_such_property"}
    for target, answers in expected.items():
        assert heard["plain"][target].outcome == heard["no_such_property"][target].outcome == "fits"
        assert heard["answers"][target].reason.endswith(f"ValueError: {answers}")
        for name, asked in (("memory", "total_memory"), ("driver_memory", "mem_clock_rate")):
            assert heard[name][target].outcome == "unknown"
            assert UNKNOWN.format(asked, target) in heard[name][target].reason
            assert "\n" not in heard[name][target].reason


NEEDS_GPU = """
import torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, kernel_spec

UNITS = torch.cuda.get_device_properties(0).multi_processor_count

@triton.jit
def _zero(x, BLOCK: tl.constexpr):
    tl.store(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 0.0)

@kernel_spec(kernel=_zero, candidates=[Config(num_warps=8)], cases=[Case(n=64)])
def needs_gpu(case, seeded):
    x = seeded.normal((UNITS * case.n,))
    return lambda: _zero[(UNITS,)](x, BLOCK=case.n)
"""


def test_import_that_needs_a_gpu(tmp_path: Path) -> None:
    """Is one line where nothing can be done, and no reason not to compile for targets."""
    (tmp_path / "qual_needs_gpu.py").write_text(NEEDS_GPU)
    (tmp_path / "pytest.ini").write_text("[pytest]\nkernelqual_paths = .\n")
    problem = f"cannot import {tmp_path / 'qual_needs_gpu.py'}: AssertionError: Torch not compiled with CUDA enabled"
    alone = run(tmp_path)
    (kernel,) = alone.document.kernels
    assert (alone.code, kernel.problem.splitlines()[0]) == (1, problem)
    assert_agree(alone)
    targeted = run(tmp_path, "--kernelqual-target=hip:gfx942,cuda:90", TRITON_CACHE_DIR=str(tmp_path / "cache"))
    (case,) = targeted.cases.values()
    assert (targeted.code, case.failures) == (1, [f"fixed launch: not_run: {problem}"])
    told = {record.target: [launch.outcome for launch in record.launches] for record in case.targets}
    assert told == {"hip:gfx942": ["fits", "fits"], "cuda:90": ["fits", "fits"]}
    assert_agree(targeted)


@pytest.mark.parametrize(
    ("name", "units"),
    [("cuda:90", 132), ("NVIDIA H20", 78), ("cuda:89", 142), ("NVIDIA L4", 58), ("AMD Instinct MI250X", 110)],
)
def test_compute_units(name: str, units: int) -> None:
    """Of the product, or of the one that an architecture stands for."""
    assert find_target(name).compute_units == units
