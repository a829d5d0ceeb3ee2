"""Registers that are spilled on compile targets, told apart from what else a stack is for."""

from pathlib import Path

from acceptance import run

from pytest_kernelqual.model.target_record import CompiledCase, CompiledRows, TargetLaunch, TargetRecord
from pytest_kernelqual.report.compiled_rows import compiled_rows_summary

SPEC = """
import torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, kernel_spec

@triton.jit
def _wide(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(y + at, values - tl.sum(values, 0))

@triton.jit
def _sine(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.sin(tl.load(x + at)))

def launched(kernel, x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, BLOCK=x.numel(), num_warps=16)
    return y

@kernel_spec(kernel=_wide, candidates=[Config(num_warps=1)], cases=[Case(n=32768)])
def wide(case, seeded):
    x = seeded.normal((case.n,))
    return lambda: launched(_wide, x)

@kernel_spec(kernel=_sine, candidates=[Config(num_warps=1)], cases=[Case(n=256)])
def sine(case, seeded):
    x = seeded.normal((case.n,))
    return lambda: launched(_sine, x)
"""


def test_spills_and_other_uses_of_the_stack(tmp_path: Path) -> None:
    """A sine has room for the reduction of large arguments, and keeps no register there."""
    (tmp_path / "qual_it.py").write_text(SPEC)
    (tmp_path / "pytest.ini").write_text("[pytest]\nkernelqual_paths = .\nkernelqual_target = cuda:90, hip:gfx942\n")
    ended = run(tmp_path, TRITON_CACHE_DIR=str(tmp_path / "cache"), COLUMNS="300")
    taken = {
        (nodeid.split("::")[1].partition("[")[0], record.target, launch.id): launch.resources
        for nodeid, case in ended.cases.items()
        for record in case.targets
        for launch in record.launches
    }
    for target in ("cuda:90", "hip:gfx942"):
        assert taken["wide", target, "fixed"]["spill_bytes"] == 0
        spilled = taken["wide", target, "num_warps=1"]["spill_bytes"]
        assert 0 < spilled < 1 << 20
        assert {taken["sine", target, name]["spill_bytes"] for name in ("fixed", "num_warps=1")} == {0}
        told = f"wide on {target}: launches that spill registers: 1, up to {spilled} bytes of a thread"
        assert f"{told} (n32768: num_warps=1)" in ended.text
    assert taken["sine", "cuda:90", "fixed"]["stack_bytes"] > 0
    assert "sine on" not in ended.text


def test_rows_that_spill() -> None:
    """Committed rows are named, those of other devices are not; a stack alone is called one."""
    own = TargetLaunch(id="a", outcome="fits", resources={"stack_bytes": 48, "spill_bytes": 40})
    sine = TargetLaunch(id="fixed", outcome="fits", resources={"stack_bytes": 32, "spill_bytes": 0})
    unknown = TargetLaunch(id="b", outcome="fits", resources={"stack_bytes": 24})
    rows = CompiledRows(
        kernel="k",
        nodeid="committed_configs/k/NVIDIA_H200.json::file",
        device="NVIDIA H200",
        target="cuda:90",
        cases=[
            CompiledCase(
                id=f"n{n}",
                key={"n": n},
                targets=[
                    TargetRecord(target="cuda:90", shared_limit_bytes=1, launches=[sine, launch]),
                    TargetRecord(target="cuda:80", shared_limit_bytes=1, launches=[own]),
                ],
            )
            for n, launch in ((1, own), (2, unknown), (3, sine))
        ],
    )
    lines = [line.strip() for line in compiled_rows_summary([rows]).splitlines() if "rows that " in line]
    stacks = "cuda:90: rows that have a stack, for spilled registers or else: 1, up to 24 bytes of a thread"
    assert lines == [
        "cuda:90: rows that spill registers: 1, up to 40 bytes of a thread (k n1 of NVIDIA H200)",
        f"{stacks} (k n2 of NVIDIA H200)",
    ]
