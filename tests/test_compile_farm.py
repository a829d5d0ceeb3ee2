"""The compile farm, on a stand-in for a GPU: each code object once, in parallel, and a bad one costs only itself."""

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest
from acceptance import Ended, candidate, finish, of_session, run, start, wait_until

STAND_IN = ("-p", "gpu_stand_in", "--kernelqual-provocation=off")

OPS = """
import functools, os, time
import torch, triton, triton.language as tl
from triton.backends.nvidia.compiler import CUDABackend

real = CUDABackend.make_ttir

def make_ttir(mod, metadata, opt, *more):
    with open(os.environ["COMPILED"], "a") as log:
        log.write(f"{os.getpid()} {os.getppid()} {metadata['hash']}:{opt.num_stages}\\n")
    if opt.num_stages == 5:
        os.abort()
    if opt.num_stages == 6:
        while True:
            pass
    if opt.num_stages == 7:
        eaten = [bytearray(b"x" * (1 << 26)) for _ in range(400)]
    if opt.num_stages == 8:
        time.sleep(3600)
    return real(mod, metadata, opt, *more)

CUDABackend.make_ttir = staticmethod(make_ttir)

@triton.jit
def _scale(x, y, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK < 1024, "too large")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

@triton.jit
def _count(y, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), tl.arange(0, BLOCK))

def scale(x, **options):
    y = torch.empty_like(x)
    n = x.numel()
    _scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, **{"BLOCK": 64, **options})
    return y

@functools.cache
def table():
    counted = torch.empty(64, dtype=torch.int32)
    _count[(1,)](counted, BLOCK=64)
    return counted

kept = {}

def scale_and_keep(x):
    y = torch.empty_like(x)
    if "kernel" not in kept:
        kept["kernel"] = _count[(1,)](torch.empty(64, dtype=torch.int32), BLOCK=64)
    kept["kernel"].metadata
    return scale(x)
"""

SPEC = """
import os
from ops import _scale, scale, scale_and_keep, table
from pytest_kernelqual import Case, Config, grid, kernel_spec

with open(os.environ["DEVICES"], "a") as log:
    log.write(f"{{os.getpid()}}\\n")

@kernel_spec(kernel=_scale, candidates={candidates}, cases=[Case(n=100), Case(n=1600), Case(n=3200)], {options})
def scaled(case, seeded):
    x = seeded.normal((case.n,))
    return lambda: {launch}
"""

FINE = "grid(BLOCK=[32, 64, 128, 1024], num_warps=[1, 4])"
# Both ways to specialise: sizes that 16 divides, and others. BLOCK=64 with 4 warps is the fixed launch's own, and
# BLOCK=1024 ends before the stage that is counted.
FINE_OBJECTS = 2 * 3 * 2


class Farmed(NamedTuple):
    """A project, and what happened in it."""

    folder: Path

    def run(self, *arguments: str) -> Ended:
        """Run pytest on the stand-in."""
        return run(self.folder, *STAND_IN, *arguments, **self.environment)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start pytest on the stand-in."""
        return start(self.folder, *STAND_IN, *arguments, **self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """Give each project its own cache and logs."""
        return {
            "TRITON_CACHE_DIR": str(self.folder / "cache"),
            "TMPDIR": str(self.folder / "tmp"),  # what other runs on this machine say of the same code is no part of it
            "COMPILED": str(self.folder / "compiled.log"),
            "LAUNCHERS": str(self.folder / "launchers.log"),
            "DEVICES": str(self.folder / "devices.log"),
        }

    @property
    def compiled(self) -> Counter[str]:
        """Count how often each code object was compiled."""
        return Counter(key for _, _, key in self._lines())

    @property
    def compilers(self) -> set[str]:
        """Return the processes that compiled."""
        return {pid for pid, _, _ in self._lines()}

    @property
    def owners(self) -> set[str]:
        """Return the processes that started those that compiled."""
        return {parent for _, parent, _ in self._lines()}

    @property
    def devices(self) -> list[str]:
        """Return the device processes, in the order of their start."""
        path = self.folder / "devices.log"
        return path.read_text().split() if path.exists() else []

    def _lines(self) -> list[list[str]]:
        path = self.folder / "compiled.log"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def project(folder: Path, candidates: str = FINE, *, options: str = "", launch: str = "scale(x)") -> Farmed:
    """Write a project of one spec file."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    (folder / "ops.py").write_text(OPS)
    (folder / "qual_scale.py").write_text(SPEC.format(candidates=candidates, options=options, launch=launch))
    (folder / "pytest.ini").write_text("[pytest]\nkernelqual_paths = .\n")
    return Farmed(folder)


def nodeid(n: int) -> str:
    """Return the node id of a case."""
    return f"qual_scale.py::scaled::test_candidates[n{n}]"


class TestColdRun:
    """Everything is compiled before anything is launched."""

    @pytest.fixture(scope="class")
    @staticmethod
    def cold(tmp_path_factory: pytest.TempPathFactory) -> tuple[Farmed, Ended]:
        """Run once with an empty cache."""
        farmed = project(tmp_path_factory.mktemp("cold"))
        return farmed, farmed.run("--kernelqual-compile-workers=2")

    def test_each_object_once_and_none_by_a_launch(self, cold: tuple[Farmed, Ended]) -> None:
        """Across candidates and cases, in other processes than the one that launches."""
        farmed, ended = cold
        assert (ended.code, len(farmed.devices)) == (0, 1)
        assert (len(farmed.compiled), set(farmed.compiled.values())) == (FINE_OBJECTS, {1})
        assert farmed.owners == set(farmed.devices)
        assert 1 <= len(farmed.compilers) <= 2

    def test_a_launcher_of_each_signature_is_made_once(self, cold: tuple[Farmed, Ended]) -> None:
        """Before the launches: making one may compile C. Those of the other code objects find it made."""
        farmed, _ = cold
        made = [line.split(" ", 1) for line in (farmed.folder / "launchers.log").read_text().splitlines()]
        ahead = [types for pid, types in made if pid not in farmed.devices]
        assert (ahead, made[0][0] in farmed.devices) == (["*fp32 *fp32 i32 constexpr"], False)
        assert {types for _, types in made} == set(ahead)

    def test_second_run_compiles_nothing(self, cold: tuple[Farmed, Ended]) -> None:
        """Triton's cache holds what compiles."""
        farmed, first = cold
        again = farmed.run("--kernelqual-compile-workers=2")
        assert set(farmed.compiled.values()) == {1}
        assert again.document.digest == first.document.digest

    def test_records_are_those_of_a_run_without_a_farm(self, cold: tuple[Farmed, Ended], tmp_path: Path) -> None:
        """The same outcomes in the same words, and there each launch compiles for itself."""
        _, with_farm = cold
        alone = project(tmp_path)
        without = alone.run("--kernelqual-compile-workers=0")
        assert alone.compilers == set(alone.devices)
        for n in (100, 1600, 3200):
            told = [
                (one.id, one.outcome, one.reason, one.phase, one.detail)
                for one in with_farm.cases[nodeid(n)].candidates
            ]
            assert told == [
                (one.id, one.outcome, one.reason, one.phase, one.detail) for one in without.cases[nodeid(n)].candidates
            ]
        assert with_farm.document.digest == without.document.digest
        refused = candidate(with_farm.cases[nodeid(100)], "BLOCK=1024,num_warps=1")
        assert (refused.outcome, refused.reason) == (
            "compile_error",
            "CompileTimeAssertionFailure: too large (line 2 of the function)",
        )


class TestSeveralFiles:
    """They are compiled together, before the first launch of any."""

    BESIDE = """
        import os
        from ops import _scale, scale
        from pytest_kernelqual import Case, grid, kernel_spec

        @kernel_spec(kernel=_scale, candidates=grid(BLOCK=[16, 256]), cases=[Case(n=1600)])
        def beside(case, seeded):
            with open(os.environ["DEVICES"] + ".built", "a") as log:
                log.write("built ")
            x = seeded.normal((case.n,))
            return lambda: {launch}
    """

    def test_second_run_looks_at_nothing(self, tmp_path: Path) -> None:
        """What its launches need is known, and compiled."""
        farmed = project(tmp_path)
        (tmp_path / "qual_beside.py").write_text(dedent(self.BESIDE.format(launch="scale(x)")))
        built = tmp_path / "devices.log.built"
        first = farmed.run("--kernelqual-compile-workers=2")
        assert (first.code, len(farmed.devices), set(farmed.compiled.values())) == (0, 1, {1})
        assert len(farmed.compiled) == FINE_OBJECTS + 2
        assert farmed.owners == set(farmed.devices)
        builds = built.read_text().count("built")
        again = farmed.run("--kernelqual-compile-workers=2")
        assert again.document.digest == first.document.digest
        assert built.read_text().count("built") - builds == builds - 1
        assert f", {FINE_OBJECTS + 2} cached, " in again.text

    def test_a_file_that_ends_the_process(self, tmp_path: Path) -> None:
        """The others are compiled all the same."""
        farmed = project(tmp_path)
        dies = "os._exit(3)"
        (tmp_path / "qual_beside.py").write_text(dedent(self.BESIDE.format(launch=dies)))
        ended = farmed.run("--kernelqual-compile-workers=2")
        assert ended.cases["qual_beside.py::beside::test_candidates[n1600]"].fixed.outcome == "fault"
        assert {case.passed for case in ended.cases.values() if case.nodeid.startswith("qual_scale")} == {True}
        assert farmed.owners <= set(farmed.devices)
        assert not farmed.compilers & set(farmed.devices)


def test_bad_compilers_cost_only_themselves(tmp_path: Path) -> None:
    """One aborts, one never ends, one eats memory; the device process sees none of it."""
    farmed = project(
        tmp_path,
        "[Config(num_stages=n) for n in (2, 5, 6, 7, 3)]",
        options="compile_timeout_s=8",
    )
    ended = farmed.run("-k", "n100", "--kernelqual-compile-workers=3", "--kernelqual-compile-memory=0.25")
    case = ended.cases[nodeid(100)]
    assert (ended.code, case.restarts, len(farmed.devices)) == (0, 0, 1)
    assert ended.outcomes(nodeid(100)) == {
        "num_stages=2": "qualified",
        "num_stages=5": "compile_error",
        "num_stages=6": "timeout",
        "num_stages=7": "compile_error",
        "num_stages=3": "qualified",
    }
    assert candidate(case, "num_stages=5").reason == "the compiler was ended by SIGABRT"
    assert "make_ttir" in candidate(case, "num_stages=5").detail["log"]
    assert candidate(case, "num_stages=6").reason.startswith("no answer within 8 s in phase compile (1 of 1 attempts")
    assert candidate(case, "num_stages=6").phase == "compile"
    assert candidate(case, "num_stages=7").reason == "the compiler needed more than 0.25 GiB of memory"
    assert set(farmed.compiled.values()) == {1}


BAD_LAUNCHER = """
from triton.runtime.driver import driver

owner = os.getpid()

class Bad(driver.active.launcher_cls):
    def __init__(self, src, metadata):
        if os.getpid() != owner:
            {ends}
        super().__init__(src, metadata)

driver.active.launcher_cls = Bad
"""


@pytest.mark.parametrize(
    "ends",
    ["while True: pass", "os.abort()", "os._exit(1)", "raise SystemExit", "raise MemoryError", "print('x' * 10**8)"],
)
def test_a_launcher_costs_only_itself(tmp_path: Path, ends: str) -> None:
    """However it ends before the launches, its code has compiled, and the launch makes it."""
    farmed = project(tmp_path, "[Config(BLOCK=32), Config(BLOCK=128)]", options="compile_timeout_s=5")
    (tmp_path / "ops.py").write_text(OPS + BAD_LAUNCHER.format(ends=ends))
    ended = farmed.run("-k", "n100", "--kernelqual-compile-workers=2")
    assert (ended.code, len(farmed.devices), set(farmed.compiled.values())) == (0, 1, {1})
    assert set(ended.outcomes(nodeid(100)).values()) == {"qualified"}


def test_fixed_launch_that_does_not_compile(tmp_path: Path) -> None:
    """It fails its case, and nobody tries it again."""
    farmed = project(tmp_path, "[Config(num_stages=2)]", launch="scale(x, num_stages=5)")
    ended = farmed.run("-k", "n100", "--kernelqual-compile-workers=2")
    fixed = ended.cases[nodeid(100)].fixed
    assert (ended.code, fixed.outcome, fixed.reason) == (1, "compile_error", "the compiler was ended by SIGABRT")
    assert (set(farmed.compiled.values()), len(farmed.devices)) == ({1}, 1)


def test_compiler_that_waits_is_left_to_the_launch(tmp_path: Path) -> None:
    """A compiler that uses no processor may miss something that it would have in the device process."""
    farmed = project(tmp_path, "[Config(num_stages=8), Config(num_stages=2)]", options="compile_timeout_s=3")
    ended = farmed.run("-k", "n100", "--kernelqual-compile-workers=2")
    assert ended.outcomes(nodeid(100)) == {"num_stages=8": "timeout", "num_stages=2": "qualified"}
    assert ended.cases[nodeid(100)].restarts == 1
    assert sorted(farmed.compiled.values()) == [1, 1, 2]


@pytest.mark.parametrize(
    ("launch", "names"), [("(scale(x), table() + 0)", "a table"), ("scale_and_keep(x)", "a kernel")]
)
def test_what_a_dry_launch_leaves_is_found_by_no_launch(tmp_path: Path, launch: str, names: str) -> None:
    """Production caches what was not computed: the process that surveyed is not the one that launches."""
    farmed = project(tmp_path / "with", "grid(num_warps=[1, 8])", launch=launch)
    ended = farmed.run("-k", "n100", "--kernelqual-compile-workers=2")
    without = project(tmp_path / "without", "grid(num_warps=[1, 8])", launch=launch)
    expected = without.run("-k", "n100", "--kernelqual-compile-workers=0")
    assert ended.cases[nodeid(100)].fixed.output == expected.cases[nodeid(100)].fixed.output, names
    assert (ended.code, expected.code, len(farmed.devices), len(without.devices)) == (0, 0, 2, 1)


def test_two_runs_at_once(tmp_path: Path) -> None:
    """With one cache, each object is compiled by one of them."""
    farmed = project(tmp_path, f"[*{FINE}, Config(num_stages=5)]")
    both = [
        farmed.start("--kernelqual-compile-workers=2", f"--kernelqual-json={name}.json", f"--junitxml={name}.xml")
        for name in "ab"
    ]
    texts = [running.communicate(timeout=300)[0] for running in both]
    assert [running.returncode for running in both] == [0, 0], texts
    assert len(farmed.compiled) == FINE_OBJECTS + 2
    # One that fails is compiled again by a run that begins after the other has ended with it.
    assert {count for key, count in farmed.compiled.items() if not key.endswith(":5")} == {1}


def test_workers_of_xdist(tmp_path: Path) -> None:
    """Each object once over all of them."""
    farmed = project(tmp_path, "grid(BLOCK=[32, 64, 128], num_warps=[1, 4])")
    ended = farmed.run("-n2", "--kernelqual-compile-workers=1")
    assert (ended.code, len(farmed.compiled), set(farmed.compiled.values())) == (0, FINE_OBJECTS, {1})
    (line,) = [one for one in ended.text.splitlines() if one.startswith("compiled before launches: ")]
    # What one worker waited for another to compile counts for both.
    assert FINE_OBJECTS <= int(line.split()[3]) <= 2 * FINE_OBJECTS
    assert not farmed.compilers & set(farmed.devices)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_end_of_pytest_ends_the_compilers(tmp_path: Path, number: int) -> None:
    """One that would go on forever included."""
    farmed = project(tmp_path, "[Config(num_stages=6), Config(num_stages=8)]", options="compile_timeout_s=600")
    running = farmed.start("-k", "n100", "--kernelqual-compile-workers=3")
    wait_until(lambda: len(farmed.compiled) == 3, "nothing compiles")
    assert len(of_session(tmp_path)) >= 4
    os.kill(running.pid, number)
    finish(running, tmp_path)
