"""Several devices of one machine, which a stub pretends: who gets which, what is where, and the benchmark of it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from acceptance import HERE
from committed_runs import MODEL, alone, chosen, commit, declared
from stub_timing import digest

BENCHMARK = HERE.parent / "benchmarks" / "several_devices.py"
XDIST = ("-p", "xdist.plugin")


def kernels(folder: Path, specs: dict[str, dict[str, Any]]) -> Path:
    """Write a project whose specs are in `kernels`, as in this repository, with a committed row for each case."""
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "qual_stub.py").write_text(repr(specs))
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "committed_configs").mkdir()
    for name, spec in specs.items():
        commit(folder, name, *(chosen(case) for case in spec["cases"]))
    return folder


class Shown(NamedTuple):
    """The benchmark's report, and how to make it again of what its runs left."""

    code: int
    text: str
    again: Callable[[], str]
    work: Path

    @property
    def problems(self) -> list[str]:
        """Return what the report calls wrong, but for the times: the stub's items take none."""
        return problems(self.text)


def problems(text: str) -> list[str]:
    """Return what a report of the benchmark calls wrong, but for the times."""
    lines = text.partition("## Problems")[2].splitlines()
    return [line for line in lines if line.startswith("* ") and "times faster" not in line and "not run" not in line]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Run the benchmark on two devices that are not there."""
    folder = tmp_path_factory.mktemp("shown")
    project = kernels(folder / "project", {f"kernel{number}": declared("a", "b", "c") for number in range(3)})
    planted = project / "planted" / "qual_planted.py"
    planted.parent.mkdir()
    faults = {"FAULT=abort": "abort", "FAULT=endless_loop": "hang"}
    planted.write_text(repr({"faults": {"cases": ["p"], "candidates": {"first": "qualified", **faults}}}))
    report = folder / "report" / "several-devices.md"
    work = folder / "work"
    command = [sys.executable, str(BENCHMARK), "--report", str(report.parent), "--work", str(work)]
    command += ["--devices", "GPU-0,GPU-1", "--root", str(project), "--planted", str(planted), "--some", "kernel0"]
    command += [f"--pytest={argument}" for argument in (*MODEL, *XDIST, "--kernelqual-run-timeout=2")]
    told = {**os.environ, **alone(project), "STUB_DEVICES": "GPU-0 GPU-1", "PYTHONPATH": str(HERE)}

    def run(*arguments: str) -> int:
        return subprocess.run([*command, *arguments], env=told, stdout=subprocess.DEVNULL, check=False).returncode

    def again() -> str:
        assert run("--only-report") == 1
        return report.read_text()

    return Shown(run(), report.read_text(), again, work)


def test_benchmark_finds_the_same_answers(shown: Shown) -> None:
    """All runs agree, whatever the devices; planted faults cost their own; rows are timed on each device."""
    assert shown.problems == []
    assert shown.code == 1  # for the times
    assert "| `FAULT=abort` | fault: " in shown.text
    assert "| `FAULT=endless_loop` | timeout: " in shown.text
    assert re.search(r"\| two \| GPU-0 \| \d+ \| [1-9]", shown.text)
    assert re.search(r"\| two \| GPU-1 \| \d+ \| [1-9]", shown.text)
    assert "| choice-index | 0,1 | --kernelqual-device=cuda:1 | 0 | 1 | 1 |" in shown.text
    assert "| choice-one-worker | 1,0 |  | 1 | 1 | 1 |" in shown.text
    assert "`four` was not run: it needs more than 2 devices" in shown.text


@pytest.mark.parametrize(
    ("run", "old", "new", "problem"),
    [
        ("boards-1", digest("b"), digest("c"), "output of 3 fixed launches differs"),
        ("choice-order", '"GPU-1"', '"GPU-0"', "ran on board 0"),
        ("two", '"verdict": "ok"', '"verdict": "not_timed"', "9 rows were not timed"),
        ("two", '"device_uuid": "GPU-1"', '"device_uuid": ""', "rows were timed on no device"),
        ("faults", '"outcome": "timeout"', '"outcome": "qualified"', "FAULT=endless_loop is qualified"),
        ("four-on-two", "kernel0::test_candidates[a]", "kernel0::test_candidates[z]", "1 cases differ from `one`"),
    ],
)
def test_benchmark_names_what_differs(shown: Shown, run: str, old: str, new: str, problem: str) -> None:
    """Each kind of difference is a problem of the run that has it."""
    path = shown.work / f"{run}.json"
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))
    try:
        found = problems(shown.again())
    finally:
        path.write_text(before)
    assert any(line.startswith(f"* `{run}`") and problem in line for line in found), found
