"""`kernelqual repro`: scripts that show a failing candidate by themselves."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from acceptance import REPORT, run
from faulty_samples import write_project
from msgspec import structs

from pytest_kernelqual.processes import scripts
from pytest_kernelqual.processes.scripts import sanitize
from pytest_kernelqual.report.document import build, encode, read, write

LIMIT_S = 300


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a project with broken kernels under the interpreter."""
    folder = write_project(tmp_path_factory.mktemp("reproduced"))
    assert run(folder, TRITON_INTERPRET="1").code == 1
    return folder


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the project and its report."""
    return shutil.copytree(original, tmp_path / "project")


def repro(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "pytest_kernelqual", "repro", REPORT, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def run_script(folder: Path, *without: str) -> tuple[int, str]:
    """Run a written script from elsewhere, where some modules cannot be imported; return exit status and output."""
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    for name in without:
        (hidden / f"{name}.py").write_text(f"raise ImportError('{name} is not wanted')")
    told = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, folder / "reproduce.py"],
        cwd="/",
        env={**told, "PYTHONPATH": str(hidden)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return done.returncode, done.stdout + done.stderr


def left_behind(folder: Path) -> set[str]:
    """Return what the command added to the project."""
    return {one.name for one in folder.iterdir()} - {"kernels", REPORT, ".pytest_cache", ".benchmarks", "junit.xml"}


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("drops", "out_ptr: 3 of 100 elements differ, first at (97,): "),
        ("overhangs", "20 bytes written beside the memory of out_ptr, at byte +400"),
        ("raises", "the candidate raised InterpreterError: "),
    ],
)
def test_kernel_by_itself(project: Path, fault: str, shown: str) -> None:
    """What the script shows; it says that the interpreter ran it."""
    done = repro(project, "--candidate", f"BLOCK=64,FAULT={fault}", "--case", "n100", "-o", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  needs torch, triton and the kernel's own module\n  it reproduces here (exit status 1):\n" in done.stdout
    assert {one.name for one in (project / "out").iterdir()} == {"reproduce.py", "memory.pt"}
    assert "Triton interpreter (semantics only: no GPU runs this)" in done.stdout
    assert f"    REPRODUCED (attempt 1 of 8): {shown}" in done.stdout


def test_fault_that_one_profile_shows(project: Path) -> None:
    """Inputs are those of the input set on which it was seen."""
    done = repro(project, "--candidate", "BLOCK=64,FAULT=flushes", "-o", "out")
    assert done.returncode == 0
    assert "# Inputs: denormals/0 of seed 0.\n" in (project / "out" / "reproduce.py").read_text()
    values = torch.load(project / "out" / "memory.pt")["memory0"].view(torch.float32)
    assert 0 < values.abs().max() < 1e-30


def test_kernel_that_was_mended(project: Path) -> None:
    """The script tells that too, without pytest or this library, and so does the command: exit status 1."""
    assert repro(project, "--candidate", "BLOCK=64,FAULT=rounds", "--case", "n100", "-o", "out").returncode == 0
    moved = (project / "out").rename(project / "moved")
    code, text = run_script(moved, "pytest", "pytest_kernelqual")
    assert code == 1
    assert "out_ptr: 100 of 100 elements differ, first at (0,): fixed launch 1.3475" in text
    ops = project / "kernels" / "ops.py"
    ops.write_text(ops.read_text().replace("x.to(tl.float16).to(tl.float32)", "x"))
    code, text = run_script(moved)
    assert (code, text.splitlines()[-1]) == (0, "not reproduced: 8 attempts left the same bytes as the fixed launch")
    done = repro(project, "--candidate", "BLOCK=64,FAULT=rounds", "--case", "n100", "-o", "again")
    assert done.returncode == 1
    assert "  it does not reproduce here (exit status 0):\n" in done.stdout
    assert {one.name for one in (project / "again").iterdir()} == {"reproduce.py", "inputs.pt"}


def test_first_of_two_launches(project: Path) -> None:
    """Shows the fault by itself; where nothing was tried, the spec is asked."""
    done = repro(project, "--candidate", "BLOCK=128,FAULT=rounds", "-o", "out")
    assert "needs torch, triton and the kernel's own module\n" in done.stdout
    done = repro(project, "--candidate", "BLOCK=128,FAULT=rounds", "-o", "unchecked", "--no-check")
    assert done.returncode == 0
    assert "because the kernel is launched 2 times, and which launch shows the fault was not tried" in done.stdout
    assert run_script(project / "unchecked", "pytest")[0] == 1


def test_kernel_that_cannot_be_imported(project: Path) -> None:
    """The spec makes it."""
    done = repro(project, "--candidate", "FAULT=rounds", "-o", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(without pytest), because the kernel _scale cannot be imported from ops\n" in done.stdout
    assert "candidate: mismatch: input out: 100 of 100 elements differ" in done.stdout


class TestSpec:
    """What the kernel alone does not show is launched as the spec says."""

    @pytest.fixture(scope="class")
    @staticmethod
    def made(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Return the folder of a launch that takes the config."""
        project = shutil.copytree(original, tmp_path_factory.mktemp("spec") / "project")
        done = repro(project, "--candidate", "PARTS=3", "--sanitizer")
        assert done.returncode == 0
        assert "(without pytest), because the launch takes the config as its argument" in done.stdout
        assert "  sanitizer: not run: the Triton interpreter runs no code on a GPU\n" in done.stdout
        assert left_behind(project) == {"repro-totals-n1000-PARTS-3"}
        return project / "repro-totals-n1000-PARTS-3"

    @pytest.fixture
    def written(self, made: Path, tmp_path: Path) -> Path:
        """Return a copy of it."""
        return shutil.copytree(made, tmp_path / "written")

    def test_without_pytest(self, written: Path) -> None:
        """How many elements differ, and where the first one is."""
        code, text = run_script(written, "pytest")
        assert code == 1
        assert "totals[n1000] on normal/0, Triton interpreter (semantics only: no GPU runs this)\n" in text
        assert "candidate: mismatch: return: 1 of 1 elements differ, first at (): expected -" in text
        assert text.endswith("REPRODUCED\n")

    def test_saved_inputs_are_what_is_run(self, written: Path) -> None:
        """A person may change them."""
        saved = torch.load(written / "inputs.pt")
        torch.save({"x": torch.ones_like(saved["x"])}, written / "inputs.pt")
        code, text = run_script(written)
        assert (code, text.splitlines()[-1]) == (0, "not reproduced")

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            ({"x": torch.ones(3)}, "holds one of (3,) torch.float32 for input 'x', which the builder makes of (1000,)"),
            ({}, "holds none for input 'x'"),
            (None, "cannot read the inputs of "),
        ],
    )
    def test_inputs_of_another_case(self, written: Path, inputs: dict[str, torch.Tensor] | None, message: str) -> None:
        """One line, and exit status 2."""
        if inputs is None:
            (written / "inputs.pt").write_bytes(b"no file of torch")
        else:
            torch.save(inputs, written / "inputs.pt")
        code, text = run_script(written)
        assert code == 2
        assert message in text
        assert "Traceback" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["BLOCK=32", "--case", "n100"], "candidate 'BLOCK=32' is qualified: there is no failure to show"),
        (["PARTS=5"], "the report has no candidate 'PARTS=5'; near ones: PARTS=3"),
        (["PARTS=3", "-o", "kernels"], "'kernels' is there and not empty; give another folder by --output"),
        (["PARTS=3", "-o", REPORT], "is there and not empty; give another folder by --output"),
        (["PARTS=3", "-o", "missing/out"], "cannot write 'missing/out': [Errno 2] No such file or directory"),
        (["PARTS=3", "--root", "kernels"], "is no spec of a file below 'kernels'; name the root folder"),
        (["PARTS=3", "--device", "hip"], "use --device=auto or interpreter, or run where the device is"),
    ],
)
def test_wrong_asking(project: Path, arguments: list[str], message: str) -> None:
    """One line, exit status 2, and nothing is left behind."""
    done = repro(project, "--candidate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert left_behind(project) == set()


def test_spec_that_changed(project: Path) -> None:
    """A case, a spec or a file that is there no longer."""
    spec = project / "kernels" / "qual_ops.py"
    text = spec.read_text()
    for changed, message in (
        (text.replace("Case(n=1000)]", "Case(n=1001)]"), "totals has no case 'n1000'; cases: n1001"),
        (text.replace("def totals", "def sums"), "has no spec 'totals'; specs: scaled, "),
        ("import nowhere", "cannot import "),
    ):
        spec.write_text(changed)
        done = repro(project, "--candidate", "PARTS=3")
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    assert left_behind(project) == set()


def test_hostile_report(project: Path) -> None:
    """Words of a report never become code of the script."""
    report = read(project / REPORT)
    kernel = next(one for one in report.kernels if one.kernel == "totals")
    (case,) = kernel.cases
    hostile = 'x"""\nopen("ran", "w")\r\u2028\'\\'
    record = structs.replace(case.candidates[0], reason=hostile, id=hostile)
    made = structs.replace(kernel, kernel=hostile, cases=[structs.replace(case, candidates=[record])])
    write(project / REPORT, encode(build([made], report.environment, [])))
    done = repro(project, "--candidate", hostile)
    assert done.returncode == 0, done.stderr
    (folder,) = left_behind(project)
    assert re.fullmatch(r"repro-[A-Za-z0-9_.-]+", folder)
    assert run_script(project / folder)[0] == 1
    assert not [*project.rglob("ran")]


class TestSanitizer:
    """Where the machine has it; here a stand-in that runs what it is given, as the tool does."""

    @pytest.fixture
    def script(self, tmp_path: Path) -> Path:
        """Return a script that tells how it was run."""
        path = tmp_path / "reproduce.py"
        path.write_text("import os, sys; print(sys.argv[1:], os.environ['PYTORCH_NO_CUDA_MEMORY_CACHING'])")
        return path

    def test_reports_are_kept(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A line for each tool, and all that it printed in a file."""
        home = script.parent / "cuda"
        (home / "bin").mkdir(parents=True)
        tool = home / "bin" / "compute-sanitizer"
        tool.write_text(
            '#!/bin/sh\nshift; echo "========= COMPUTE-SANITIZER $1"; shift; "$@"\n'
            'echo "========= ERROR SUMMARY: 2 errors"\n'
        )
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        monkeypatch.setenv("CUDA_HOME", str(home))
        lines = sanitize(script, "--no-guards", limit_s=60)
        assert lines == [
            f"sanitizer: {tool}: ERROR SUMMARY: 2 errors (all of it: sanitizer-{tool}.txt)"
            for tool in ("memcheck", "racecheck")
        ]
        kept = (script.parent / "sanitizer-racecheck.txt").read_text()
        assert kept.splitlines()[:2] == ["========= COMPUTE-SANITIZER racecheck", "['--no-guards'] 1"]

    def test_machine_without_it(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One clear line."""
        monkeypatch.setenv("PATH", str(script.parent))
        monkeypatch.setenv("CUDA_HOME", str(script.parent))
        monkeypatch.setattr(scripts, "_HOME", str(script.parent))
        (line,) = sanitize(script, limit_s=60)
        assert line.startswith("sanitizer: not run: compute-sanitizer is neither on PATH nor in ")
