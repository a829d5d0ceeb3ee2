"""What compiling alone proves of candidates: the same program or order, and parameters that do nothing."""

from pathlib import Path

import pytest
from acceptance import Ended, run

from pytest_kernelqual.model.target_record import TargetNeeds, TargetRecord

SPEC = """
import torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, grid, kernel_spec

@triton.jit
def _twice(x, y, n, BLOCK: tl.constexpr, UNUSED: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

@triton.jit
def _total(x, y, N: tl.constexpr):
    tl.store(y + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * N + tl.arange(0, N)), 0))

@kernel_spec(
    kernel=_twice,
    candidates=grid(BLOCK=[64, 128], num_warps=[2, 4], UNUSED=[0, 1]),
    cases=[Case(n=256)],
)
def twice(case, seeded):
    x = seeded.normal((case.n,))
    def launch():
        y = torch.empty_like(x)
        _twice[lambda meta: (triton.cdiv(case.n, meta["BLOCK"]),)](x, y, case.n, BLOCK=64, num_warps=2, UNUSED=0)
        return y
    return launch

@kernel_spec(kernel=_total, candidates=grid(num_warps=[1, 2], num_stages=[2, 3]), cases=[Case(n=256)])
def total(case, seeded):
    x = seeded.normal((4, case.n))
    def launch():
        y = torch.empty(4)
        _total[(4,)](x, y, N=case.n, num_warps=1, num_stages=2)
        return y
    return launch

@kernel_spec(kernel=_total, candidates=[Config(num_warps=1)], cases=[Case(n=256)])
def reads(case, seeded):
    x = seeded.normal((4, case.n))
    length = seeded.adopt(torch.tensor([case.n]), name="length")
    def launch():
        y = torch.empty(4)
        _total[(4,)](x, y, N=int(length), num_warps=1)
        return y
    return launch
"""
TARGETS = ("cuda:90", "hip:gfx942")


def compiled(folder: Path, cache: Path, *arguments: str) -> Ended:
    """Run all of it for both targets."""
    folder.mkdir()
    (folder / "qual_small.py").write_text(SPEC)
    (folder / "pytest.ini").write_text(f"[pytest]\nkernelqual_paths = .\nkernelqual_target = {','.join(TARGETS)}\n")
    return run(folder, *arguments, TRITON_CACHE_DIR=str(cache), COLUMNS="300")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one cache for both runs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Ended:
    """Run without orders."""
    return compiled(tmp_path_factory.mktemp("plain") / "of", cache)


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory, cache: Path, plain: Ended) -> Ended:
    """Run with orders, on code that is compiled already."""
    assert plain.code == 0, plain.text
    return compiled(tmp_path_factory.mktemp("ordered") / "of", cache, "--kernelqual-target-orders=on")


def records(ended: Ended, spec: str) -> dict[str, TargetRecord]:
    """Return the only case of a spec on each target."""
    (case,) = (case for nodeid, case in ended.cases.items() if f"::{spec}::" in nodeid)
    return {record.target: record for record in case.targets}


def evidence(record: TargetRecord) -> dict[str, str | None]:
    """Return the evidence of each launch."""
    assert {launch.outcome for launch in record.launches} == {"fits"}
    return {launch.id: launch.evidence for launch in record.launches}


@pytest.mark.parametrize("target", TARGETS)
class TestEvidence:
    """On each target by itself."""

    def test_same_program(self, plain: Ended, target: str) -> None:
        """The fixed launch's own config, and that with another value of what is never read; no order is asked for."""
        assert evidence(records(plain, "twice")[target]) == {
            "fixed": None,
            **{
                f"BLOCK={block},num_warps={warps},UNUSED={unused}": (
                    "identical_binary" if (block, warps) == (64, 2) else None
                )
                for block in (64, 128)
                for warps in (2, 4)
                for unused in (0, 1)
            },
        }

    def test_dead_axes(self, plain: Ended, target: str) -> None:
        """What changes no program: a parameter that is never read, stages where there is no loop."""
        assert records(plain, "twice")[target].dead_axes == ["UNUSED"]
        assert records(plain, "total")[target].dead_axes == ["num_stages"]

    def test_same_order(self, ordered: Ended, target: str) -> None:
        """Elements that meet no other are computed in one order, whatever the tile; a sum over more warps is not."""
        found = set(evidence(records(ordered, "twice")[target]).values())
        assert found == {None, "identical_binary", "identical_order"}
        assert evidence(records(ordered, "total")[target]) == {
            "fixed": None,
            "num_warps=1,num_stages=2": "identical_binary",
            "num_warps=1,num_stages=3": "identical_binary",
            "num_warps=2,num_stages=2": None,
            "num_warps=2,num_stages=3": None,
        }

    def test_what_cannot_be_traced_proves_nothing(self, ordered: Ended, target: str) -> None:
        """It fits, and host code reads a value on the way."""
        assert evidence(records(ordered, "reads")[target]) == {"fixed": None, "num_warps=1": None}

    def test_kernel_by_target(self, ordered: Ended, target: str) -> None:
        """The report has the largest need and the headroom of each kernel on each target, and the summary shows it."""
        (kernel,) = (kernel for kernel in ordered.document.kernels if kernel.kernel == "twice")
        (needs,) = (one for one in kernel.targets if one.target == target)
        assert needs == TargetNeeds(
            target=target,
            outcomes={"fits": 9},
            evidence={"identical_binary": 2, "identical_order": 6},
            needs=needs.needs,
            headroom={
                "registers": (255 if target == "cuda:90" else 512) - needs.needs["registers"],
                "shared_bytes": (232448 if target == "cuda:90" else 65536) - needs.needs["shared_bytes"],
                "threads": 1024 - needs.needs["threads"],
            },
        )
        assert needs.needs["threads"] == 4 * (32 if target == "cuda:90" else 64)
        (line,) = (line for line in ordered.text.splitlines() if line.startswith("twice") and target in line)
        registers = f"{needs.needs['registers']} ({needs.headroom['registers']})"
        assert line.split()[:5] == ["twice", target, "9", "of", "9"]
        assert registers in line
        assert line.split()[-2:] == ["2", "6"]


def test_nothing_is_compiled_again_for_orders(plain: Ended, ordered: Ended) -> None:
    """The same code, and the same decisions."""
    for spec in ("twice", "total"):
        for target in TARGETS:
            resources = [
                [launch.resources for launch in records(ended, spec)[target].launches] for ended in (plain, ordered)
            ]
            assert resources[0] == resources[1]
    assert "on cuda:90: UNUSED changes nothing in what is launched" in plain.text
