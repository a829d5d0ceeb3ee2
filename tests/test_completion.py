"""Shell completion, by the shell itself."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, mismatching

from pytest_kernelqual.report.document import build, encode, write

# What bash does when TAB is pressed at the end of a line; it breaks words at `=` too.
PRESS_TAB = """
source <(kernelqual completion bash)
COMP_LINE=%s
COMP_POINT=${#COMP_LINE}
COMP_TYPE=9
_python_argcomplete kernelqual
printf '%%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the command, as an installation has it, and a report."""
    command = tmp_path / "bin" / "kernelqual"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pytest_kernelqual "$@"\n')
    command.chmod(0o755)
    records = [candidate("num_warps=4"), mismatching("num_warps=16,num_stages=2"), candidate("it's $(touch x); `y`")]
    report = build([kernel(case(*records))], ENVIRONMENT, [NODEID])
    write(tmp_path / "report.json", encode(report))
    (tmp_path / "broken.json").write_text("{")
    return tmp_path


def completions(folder: Path, line: str) -> list[str]:
    """Return what bash offers at the end of a line."""
    done = subprocess.run(
        ["bash", "--norc", "-c", PRESS_TAB % shlex.quote(line)],
        cwd=folder,
        env={"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    return sorted(filter(None, (word.strip() for word in done.stdout.splitlines())))


def test_commands(folder: Path) -> None:
    """By their beginning."""
    assert completions(folder, "kernelqual e") == ["explain"]
    assert {"explain", "merge", "check", "summary"} <= set(completions(folder, "kernelqual "))


def test_options_and_their_values(folder: Path) -> None:
    """Those of the command that stands there."""
    assert completions(folder, "kernelqual explain rep") == ["report.json"]
    assert completions(folder, "kernelqual explain report.json --cand") == ["--candidate"]
    assert completions(folder, "kernelqual explain report.json --format ") == ["json", "text"]
    assert completions(folder, "kernelqual completion ") == ["bash", "fish", "zsh"]


def test_names_of_the_report(folder: Path) -> None:
    """Candidates, kernels and cases that the named file holds; bash replaces what follows the last `=`."""
    line = "kernelqual explain report.json "
    assert completions(folder, f"{line}--candidate num_") == ["num_warps=16,num_stages=2", "num_warps=4"]
    assert completions(folder, f"{line}--candidate num_warps=1") == ["16,num_stages=2"]
    assert completions(folder, f"{line}--kernel ") == ["rms_norm_fwd"]
    assert completions(folder, f"{line}--candidate num_warps=4 --case r") == ["rows3-cols515-float16"]


def test_hostile_name(folder: Path) -> None:
    """Quoted, so that the shell runs nothing of it."""
    (offered,) = completions(folder, "kernelqual explain report.json --candidate it")
    echoed = subprocess.run(["bash", "-c", f"printf %s {offered}"], capture_output=True, text=True, check=True)
    assert echoed.stdout == "it's $(touch x); `y`"
    assert not (folder / "x").exists()


@pytest.mark.parametrize("file", ["broken.json", "missing.json", ""])
def test_report_that_cannot_be_read(folder: Path, file: str) -> None:
    """Nothing is offered, and nothing is printed between the person's words."""
    assert completions(folder, f"kernelqual explain {file} --candidate x") == []


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete "), ("zsh", "compdef "), ("fish", "complete --command")]
)
def test_code_for_each_shell(folder: Path, shell: str, word: str) -> None:
    """Printed, and nothing else."""
    done = subprocess.run(
        [folder / "bin" / "kernelqual", "completion", shell], capture_output=True, text=True, check=True
    )
    assert f"{word}" in done.stdout
    assert "kernelqual" in done.stdout


def test_unknown_shell(folder: Path) -> None:
    """Those that there are."""
    done = subprocess.run(
        [folder / "bin" / "kernelqual", "completion", "csh"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "'csh' (choose from" in done.stderr
