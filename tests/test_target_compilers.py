"""Compilers that misbehave for a target: each costs its own candidate."""

import os
from pathlib import Path

import pytest
from acceptance import Ended, run
from test_targets import SPEC as GEMM
from test_targets import survey

from pytest_kernelqual.launch.compiler_words import first_error
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.target_record import TargetLaunch
from pytest_kernelqual.processes.compile_farm import CaseName
from pytest_kernelqual.processes.compile_targets import CompileTargets

SPEC = """
import os, resource, signal
import torch, triton, triton.language as tl
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.cache import FileCacheManager
from pytest_kernelqual import Case, Config, kernel_spec

real = CUDABackend.make_ttir

def make_ttir(mod, metadata, opt, *more):
    if opt.num_stages == 5:
        os.abort()
    if opt.num_stages == 6:
        while True:
            pass
    if opt.num_stages == 2:
        eaten = [bytearray(b"x" * (1 << 26)) for _ in range(400)]
    if opt.num_stages == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    full["disk"] = opt.num_stages == 9
    return real(mod, metadata, opt, *more)

CUDABackend.make_ttir = staticmethod(make_ttir)

full = {"disk": False}
really_put = FileCacheManager.put

def put(self, *file, **more):
    if full["disk"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    try:
        return really_put(self, *file, **more)
    except OSError:
        full["disk"] = False  # the next code object comes
        raise
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

FileCacheManager.put = put

@triton.jit
def _twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

@kernel_spec(
    kernel=_twice,
    candidates=[Config(num_stages=stages) for stages in (1, 2, 4, 5, 6, 8, 9)],
    cases=[Case(n=256)],
    compile_timeout_s=10,
)
def twice(case, seeded):
    x = seeded.normal((case.n,))
    def launch():
        y = torch.empty_like(x)
        _twice[(triton.cdiv(case.n, 64),)](x, y, case.n, BLOCK=64)
        return y
    return launch
"""


def launches(folder: Path, spec: str, *arguments: str) -> tuple[Ended, list[TargetLaunch]]:
    """Run a spec file of one case for one target."""
    (folder / "qual_it.py").write_text(spec)
    (folder / "pytest.ini").write_text("[pytest]\nkernelqual_paths = .\nkernelqual_target = cuda:90\n")
    (folder / "tmp").mkdir()
    ended = run(
        folder,
        "--kernelqual-compile-workers=2",
        *arguments,
        TRITON_CACHE_DIR=str(folder / "cache"),
        TMPDIR=str(folder / "tmp"),
        COLUMNS="300",
    )
    (case,) = ended.cases.values()
    return ended, case.targets[0].launches


def test_bad_compilers_cost_only_themselves(tmp_path: Path) -> None:
    """One aborts, one never ends, one eats memory, one is killed, one finds no room in Triton's cache."""
    ended, found = launches(tmp_path, SPEC, "--kernelqual-compile-memory=0.25", "-n4", "-x")
    assert [(launch.id, launch.outcome, launch.reason) for launch in found] == [
        ("fixed", "fits", ""),
        ("num_stages=1", "fits", ""),
        ("num_stages=2", "compile_error", "the compiler needed more than 0.25 GiB of memory"),
        ("num_stages=4", "fits", ""),
        ("num_stages=5", "compile_error", "the compiler was ended by SIGABRT"),
        ("num_stages=6", "timeout", "no answer within 10 s in phase compile"),
        ("num_stages=8", "unknown", "the compiler was killed by the system"),
        ("num_stages=9", "unknown", f"OSError while compiling: {os.strerror(27)}"),
    ]
    assert ended.code == 0


def test_tile_that_compiles_for_minutes(tmp_path: Path) -> None:
    """256 by 256 by 64 elements with one warp, for which the real compiler takes longer than anyone waits."""
    decorated = GEMM.partition("@kernel_spec")[0]
    spec = f"""{decorated}
@kernel_spec(
    kernel=_gemm,
    candidates=[Config(BLOCK=256, BLOCK_K=64, num_warps=1), Config(BLOCK=32)],
    cases=[Case(n=512, interpreter={{"n": 64}})],
    compile_timeout_s=15,
)
def product(case, seeded):
    a = seeded.normal((case.n, case.n), dtype="float16")
    return lambda: gemm(a, a)
"""
    _, found = launches(tmp_path, spec)
    assert [(launch.id, launch.outcome) for launch in found] == [
        ("fixed", "fits"),
        ("BLOCK=256,BLOCK_K=64,num_warps=1", "timeout"),
        ("BLOCK=32", "fits"),
    ]


def test_triton_without_a_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that the installed triton does not compile for is one line, told of all cases, and others go on."""
    (tmp_path / "qual_it.py").write_text(SPEC.replace("stages in (1, 2, 4, 5, 6, 8, 9)", "stages in (1, 4)"))
    (tmp_path / "sitecustomize.py").write_text("from triton.backends import backends\nbackends.pop('amd')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    names = ("hip:gfx942", "cuda:90")
    targets = CompileTargets(Settings(root_dir=str(tmp_path), targets=names, compile_workers=1))
    try:
        case = CaseName(str(tmp_path / "qual_it.py"), "twice", "n256")
        without, other = targets.records(case, [], lambda *_told: None)
        again = targets.records(case._replace(case="n512"), [], lambda *_told: None)
    finally:
        targets.close()
    assert [launch.outcome for launch in other.launches] == ["fits"] * 3
    (told,) = without.launches
    assert (told.id, told.outcome) == ("fixed", "unknown")
    assert told.reason.startswith("the installed triton does not compile for hip:gfx942: 0 compatible backends")
    assert again[0].launches == without.launches


REJECTED = """
import torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, kernel_spec

@triton.jit
def _through(x, y, ASM: tl.constexpr, HOW: tl.constexpr):
    at = tl.arange(0, 128)
    told = tl.inline_asm_elementwise(ASM, HOW, [tl.load(x + at)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(y + at, told)

@kernel_spec(
    kernel=_through,
    candidates=[
        Config(HOW="=z,z"), Config(ASM="mov.u32 $0, $5;"), Config(ASM="frobnicate $0, $1;"),
        Config(num_ctas=2), Config(num_warps=3), Config(num_warps=8),
    ],
    cases=[Case(n=128)],
    grid_independent=("ASM", "HOW"),
)
def through(case, seeded):
    x = seeded.zeros((case.n,), dtype="int32")
    def launch():
        y = torch.empty_like(x)
        _through[(1,)](x, y, ASM="// $0 $1", HOW="=r,0")
        return y
    return launch
"""


@pytest.mark.parametrize(
    ("target", "unknown_word", "clusters"),
    [
        (
            "cuda:80",
            "PTXASError: ptxas tmp.ptx, line 42; error : Not a name of any known instruction: 'frobnicate'",
            "ValueError: num_ctas > 1 requires NVIDIA SM90+ (Hopper). Current target is sm_80",
        ),
        (
            "hip:gfx942",
            "RuntimeError: LLD failed to link hsaco source tmp into object file tmp because: invalid instruction",
            "ValueError: num_ctas > 1 not supported on gfx942",
        ),
    ],
)
def test_what_compilers_reject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, unknown_word: str, clusters: str
) -> None:
    """Whether they raise, exit or abort: in their own words, which are the same each time."""
    path = tmp_path / "qual_it.py"
    path.write_text(REJECTED if target == "cuda:80" else REJECTED.replace("=r,0", "=v,0"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    settings = Settings(root_dir=str(tmp_path), device=f"target:{target}", compile_workers=2)
    found, again = survey(settings, path).launched, survey(settings, path).launched
    assert found == again
    fixed, *refused, eight = [(one.launch.outcome, one.launch.reason) for one in found]
    assert fixed == eight == ("fits", "")
    assert {outcome for outcome, _ in refused} == {"compile_error"}
    constraint, operand, word, cluster, warps = [reason for _, reason in refused]
    assert constraint == "the compiler exited with status 1: couldn't allocate output register for constraint 'z'"
    assert operand == (
        "the compiler was ended by SIGABRT: "
        "LLVM ERROR: Invalid $ operand number in inline asm string: 'mov.u32 $0, $5;'"
    )
    assert word == unknown_word
    assert cluster.startswith(clusters)
    assert warps == "AssertionError: num_warps must be a power of 2"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("loc(\"k.py\":3:4): error: 'tt.dot' op is wrong\n", "'tt.dot' op is wrong"),
        ("python: /build/Value.cpp:99: void f(): Assertion `x > 0' failed.\n", "Assertion `x > 0' failed"),
        ("\nLLVM ERROR: Cannot select: 0x55d5a8c0f0e0: f32 = what\n", "LLVM ERROR: Cannot select: 0x...: f32 = what"),
        ("Fatal Python error: Aborted\n\nCurrent thread 0x00007f (most recent call first):\n", ""),
        ("ld.lld: error: undefined symbol: f\n>>> referenced by /tmp/tmpab12_xyz\n", "undefined symbol: f"),
    ],
)
def test_first_error_of_a_log(log: str, told: str) -> None:
    """Without the place in the compiler's sources or ours."""
    assert first_error(log) == told
