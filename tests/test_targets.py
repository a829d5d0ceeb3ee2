"""Compile targets: named, limited, and compiled for by a process that has no device."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance import assert_agree, run
from committed_samples import H200

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.judge.targets import CommittedConfig, target_failures
from pytest_kernelqual.model.messages import Describe, Described, Progress, Survey, Surveyed
from pytest_kernelqual.model.outcome import TargetOutcome
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord
from pytest_kernelqual.model.targets import distinct_targets, find_target
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

LIMITS = Limits(300, 300, 300)

SPEC = """
import torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, kernel_spec

@triton.jit
def _gemm(a, b, c, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))

def gemm(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = lambda meta: (triton.cdiv(m, meta["BLOCK"]), triton.cdiv(n, meta["BLOCK"]))
    _gemm[grid](a, b, c, m, n, k, BLOCK=64, BLOCK_K=32, num_warps=4, num_stages=2)
    return c

@kernel_spec(
    kernel=_gemm,
    candidates=[Config(BLOCK=64, num_stages=2), Config(BLOCK=128, BLOCK_K=64, num_stages=5, num_warps=8)],
    cases=[Case(n=4096)],
)
def product(case, seeded):
    a = seeded.normal((case.n, case.n), dtype="float16")
    b = seeded.normal((case.n, case.n), dtype="float16")
    return lambda: gemm(a, b)

@kernel_spec(kernel=_gemm, candidates=[Config(num_warps=8)], cases=[Case(n=512)])
def reads(case, seeded):
    a = seeded.normal((case.n, case.n), dtype="float16")
    return lambda: gemm(a, a)[: int(gemm(a, a).sum().item())]

@kernel_spec(kernel=_gemm, candidates=[Config(num_warps=8)], cases=[Case(n=512)])
def needs_gpu(case, seeded):
    a = torch.empty((case.n, case.n), dtype=torch.float16, device="cuda")
    return lambda: gemm(a, a)
"""


@pytest.mark.parametrize(
    ("name", "target", "shared_bytes"),
    [
        ("cuda:90", "cuda:90", 232448),
        ("NVIDIA H200", "cuda:90", 232448),
        ("NVIDIA L40S", "cuda:89", 101376),
        ("NVIDIA A100-SXM4-80GB", "cuda:80", 166912),
        ("NVIDIA GeForce RTX 4090", "cuda:89", 101376),
        ("AMD Instinct MI300X", "hip:gfx942", 65536),
        ("hip:gfx950", "hip:gfx950", 163840),
    ],
)
def test_names(name: str, target: str, shared_bytes: int) -> None:
    """Architectures, and products as drivers name them."""
    found = find_target(name)
    assert (found.name, found.shared_bytes) == (target, shared_bytes)


@pytest.mark.parametrize("name", ["cuda:91", "cuda", "", "NVIDIA A1000", "gfx942"])
def test_unknown_name(name: str) -> None:
    """The known ones are listed."""
    with pytest.raises(
        SettingsError,
        match=r"is not known; use one of cuda:75, .*hip:gfx942.* one of these words: T4, .*H200, .*MI355X",
    ):
        find_target(name)


def test_products_of_one_architecture() -> None:
    """The first one stands for it, and the others are named, once each."""
    names = ["NVIDIA H200", "hip:gfx942", "H20", "cuda:90", "H20", "NVIDIA H200"]
    assert distinct_targets(names) == (
        ("NVIDIA H200", "hip:gfx942"),
        [
            "H20 is not compiled for by itself: NVIDIA H200 stands for cuda:90 (compute units: 132; H20: 78)",
            "cuda:90 is not compiled for by itself: NVIDIA H200 stands for cuda:90 (compute units: 132; cuda:90: 132)",
        ],
    )


class TestSurvey:
    """One process for each target."""

    @pytest.fixture(scope="class", params=["cuda:90", "hip:gfx942"])
    @staticmethod
    def surveyed(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[tuple[str, Surveyed, Surveyed]]:
        """Survey twice with one cache."""
        folder = tmp_path_factory.mktemp("target")
        path = folder / "qual_gemm.py"
        path.write_text(SPEC)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRITON_CACHE_DIR", str(folder / "cache"))
            patch.delenv("TRITON_INTERPRET", raising=False)
            settings = Settings(root_dir=str(folder), device=f"target:{request.param}", compile_workers=2)
            yield request.param, survey(settings, path), survey(settings, path)

    def test_what_fits(self, surveyed: tuple[str, Surveyed, Surveyed]) -> None:
        """The candidate that takes more than a work-group of the AMD device may have is the only one that fails."""
        target, first, _ = surveyed
        failures = [(one.spec, one.config, one.outcome, one.reason) for one in first.failures]
        large = "BLOCK=128,BLOCK_K=64,num_stages=5,num_warps=8"
        taken = next(one.launch.resources for one in first.launched if one.launch.id == large)
        assert taken["shared_bytes"] > 65536
        reason = f"shared memory: required {taken['shared_bytes']}, limit 65536"
        assert failures == ([] if target == "cuda:90" else [("product", large, "out_of_resources", reason)])

    def test_what_it_takes(self, surveyed: tuple[str, Surveyed, Surveyed]) -> None:
        """Read from the code."""
        target, first, _ = surveyed
        fixed = next(
            one.launch.resources for one in first.launched if (one.spec, one.launch.id) == ("product", "fixed")
        )
        assert fixed["threads"] == 4 * (32 if target == "cuda:90" else 64)
        assert 16 <= fixed["registers"] <= 512
        assert fixed["stack_bytes"] == 0

    def test_second_time(self, surveyed: tuple[str, Surveyed, Surveyed]) -> None:
        """Nothing is compiled, and the same is told."""
        _, first, second = surveyed
        assert (first.compiled, first.cached) == (second.cached, second.compiled) == (first.compiled, 0)
        assert (second.failures, second.launched, second.not_surveyed) == (
            first.failures,
            first.launched,
            first.not_surveyed,
        )

    def test_what_cannot_be_known(self, surveyed: tuple[str, Surveyed, Surveyed]) -> None:
        """One line each, and the others go on."""
        _, first, _ = surveyed
        assert any(line.startswith("needs_gpu[n512]: the builder raised") for line in first.not_surveyed)
        told = "reads[n512] fixed: aten::_local_scalar_dense reads what a kernel should have computed"
        assert any(line.startswith(told) for line in first.not_surveyed)


def test_unknown_target_ends_the_process(tmp_path: Path) -> None:
    """With the reason."""
    device = DeviceProcess(Settings(root_dir=str(tmp_path), device="target:cuda:17"))
    with pytest.raises(SettingsError, match="compile target 'cuda:17' is not known"):
        device.hello()


def survey(settings: Settings, path: Path) -> Surveyed:
    """Survey all cases of a file in a new process."""
    told: list[Progress] = []
    device = DeviceProcess(settings)
    try:
        described = device.ask(Describe(path=str(path)), LIMITS)
        assert isinstance(described, Described)
        cases = [(spec.name, case.id) for spec in described.specs for case in spec.cases]
        reply = device.ask(Survey(path=str(path), cases=cases), LIMITS, told.append)
    finally:
        device.close()
    assert isinstance(reply, Surveyed)
    assert os.environ["TRITON_CACHE_DIR"]
    return reply


GRIDS = """
import torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, kernel_spec

@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):
    at = (tl.program_id(0) + tl.program_id(1) + tl.program_id(2)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

MOST = 65535 * 16
CASES = {"x": (MOST, 0, 1), "y": (MOST, 1, 1), "z": (MOST, 2, 1), "long": (2**31 * 16, 0, 1), "none": (0, 0, 65536)}

@kernel_spec(
    kernel=_copy,
    candidates=[Config(BLOCK=1), Config(BLOCK=16)],
    cases=[Case(which=which) for which in CASES],
)
def copied(case, seeded):
    x = seeded.normal((512,))
    def launch():
        y = torch.empty_like(x)
        def grid(meta):
            n, axis, z = CASES[case.which]
            sizes = [1, 1, z]
            sizes[axis] = triton.cdiv(n, meta["BLOCK"])
            return tuple(sizes)
        _copy[grid](x, y, 512, BLOCK=32)
        return y
    return launch
"""


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_grids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """What CUDA's driver refuses, by axis; a grid without programs is not launched, and of AMD nothing is told."""
    path = tmp_path / "qual_grids.py"
    path.write_text(GRIDS)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    found = survey(Settings(root_dir=str(tmp_path), device=f"target:{target}", compile_workers=2), path)
    refused = {
        (one.case.removeprefix("which"), one.launch.id): one.launch.reason
        for one in found.launched
        if one.launch.outcome == "launch_error"
    }
    told = "invalid argument: {} programs along {} of the grid, limit {}"
    expected = {
        ("y", "BLOCK=1"): told.format(65535 * 16, "y", 65535),
        ("z", "BLOCK=1"): told.format(65535 * 16, "z", 65535),
        ("long", "BLOCK=1"): told.format(2**35, "x", 2**31 - 1),
        ("long", "BLOCK=16"): told.format(2**31, "x", 2**31 - 1),
    }
    assert refused == (expected if target == "cuda:90" else {})
    assert {one.launch.outcome for one in found.launched} <= {"fits", "launch_error"}


SHALLOW = "BLOCK=64, BLOCK_K=32, num_warps=4, num_stages=2"
DEEP = "BLOCK=128, BLOCK_K=32, num_warps=8, num_stages=8"


@pytest.mark.parametrize("outcome", ["out_of_resources", "compile_error", "launch_error", "timeout"])
def test_committed_config_that_its_own_device_cannot_take(outcome: TargetOutcome) -> None:
    """It fails the case; on other devices it is a candidate as any other."""
    gone = TargetLaunch(id="num_warps=8", outcome=outcome, reason="this and that")
    records = [TargetRecord(target=name, shared_limit_bytes=1, launches=[gone]) for name in ("cuda:80", "cuda:90")]
    assert target_failures(records, [CommittedConfig(H200, "num_warps=8"), CommittedConfig(H200, "num_warps=4")]) == [
        f"committed config num_warps=8 of NVIDIA H200: {outcome}: this and that"
    ]


RUN_SPEC = f"""
{SPEC.partition("@kernel_spec")[0].replace(SHALLOW, DEEP)}

@triton.jit
def _limited(x, y, N: tl.constexpr, FLAG: tl.constexpr):
    tl.static_assert(FLAG != 3, "not this one")
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))

@kernel_spec(kernel=_gemm, candidates=[Config(num_stages=2)], cases=[Case(n=4096, interpreter={{"n": 128}})])
def deep(case, seeded):
    a = seeded.normal((case.n, case.n), dtype="float16")
    return lambda: gemm(a, a)

@kernel_spec(
    kernel=_limited, candidates=[Config(FLAG=3), Config(FLAG=2)], grid_independent=("FLAG",), cases=[Case(n=64)]
)
def limited(case, seeded):
    x = seeded.normal((case.n,))
    def launch():
        y = torch.empty_like(x)
        _limited[(1,)](x, y, N=case.n, FLAG=1)
        return y
    return launch
"""


def test_run_on_a_machine_without_them(tmp_path: Path) -> None:
    """Beside the interpreter, with a table, records and a case that fails because production would not fit."""
    (tmp_path / "qual_two.py").write_text(RUN_SPEC)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nkernelqual_paths = .\nkernelqual_target = cuda:86, NVIDIA H200, H20\n"
    )
    ended = run(tmp_path, TRITON_CACHE_DIR=str(tmp_path / "cache"))
    deep, limited = ended.cases.values()
    assert ended.code == 1, ended.text
    told = {record.target: record.launches for record in deep.targets}
    assert [(launch.id, launch.outcome) for launch in told["cuda:90"]] == [("fixed", "fits"), ("num_stages=2", "fits")]
    wanted = told["cuda:86"][0].resources["shared_bytes"]
    assert wanted > 99 * 1024
    assert deep.failures == [
        f"fixed launch on cuda:86: out_of_resources: shared memory: required {wanted}, limit {99 * 1024}"
    ]
    assert limited.passed
    assert [(launch.id, launch.outcome) for launch in limited.targets[0].launches] == [
        ("fixed", "fits"), ("FLAG=3", "compile_error"), ("FLAG=2", "fits"),
    ]  # fmt: skip
    assert "compile targets (nothing was launched there)" in ended.text
    assert ended.text.count("H20 is not compiled for by itself: NVIDIA H200 stands for cuda:90") == 1
    assert_agree(ended)


def test_wrong_target_is_a_usage_error(tmp_path: Path) -> None:
    """Before anything runs."""
    (tmp_path / "qual_two.py").write_text(RUN_SPEC)
    ended = run(tmp_path, "--kernelqual-target=cuda:90,cuda:9000", ".")
    assert ended.code == 4
    assert "compile target 'cuda:9000' is not known; use one of cuda:75" in ended.text
