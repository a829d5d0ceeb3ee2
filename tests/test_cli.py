"""The `kernelqual` command, as a user or a script runs it."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, mismatching, plan_of

from pytest_kernelqual.cli import main
from pytest_kernelqual.report import schema
from pytest_kernelqual.report.document import build, encode, read, write
from pytest_kernelqual.report.journal import Journal

PASSED = [kernel(case(candidate("a"), candidate("b")))]
FAILED = [kernel(case(candidate("a"), mismatching("b")))]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest_kernelqual", *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def passed(tmp_path: Path) -> Path:
    """Return the JSON of a run without failures."""
    path = tmp_path / "passed.json"
    write(path, encode(build(PASSED, ENVIRONMENT, [NODEID])))
    return path


def test_summary_shows_a_report_that_passed(passed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 0."""
    assert main(["summary", str(passed)]) == 0
    told = capsys.readouterr()
    assert "report: complete\ndigest: sha256:" in told.out
    assert told.out.endswith("\n")
    assert told.err == ""


def test_summary_of_a_failing_report_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script can tell it from a file that cannot be read."""
    write(tmp_path / "failed.json", encode(build(FAILED, ENVIRONMENT, [NODEID])))
    assert main(["summary", str(tmp_path / "failed.json")]) == 1
    assert "failing candidates (1)" in capsys.readouterr().out


def test_unreadable_report_exits_with_2_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback."""
    assert main(["summary", str(tmp_path / "missing.json")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("kernelqual: error: cannot read '")
    assert told.err.count("\n") == 1


def test_recover_makes_a_report_of_a_killed_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It lies in the journal folder, is marked incomplete, and fails as the run would have."""
    with Journal(tmp_path, "main") as journal:
        journal.plan(plan_of(PASSED))
        journal.candidate(NODEID, candidate("a"))
    assert main(["recover", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    document = read(tmp_path / "qualified-configurations.json")
    assert not document.complete
    assert [record.outcome for record in document.kernels[0].cases[0].candidates] == ["qualified", "not_run"]
    assert "report: INCOMPLETE" in told
    assert told.endswith(f"report written to {tmp_path / 'qualified-configurations.json'}\n")


def test_recover_of_a_finished_journal_is_incomplete_too(tmp_path: Path) -> None:
    """What the run would still have found out at its end is not known."""
    with Journal(tmp_path / "journal", "main") as journal:
        journal.plan(plan_of(PASSED))
        journal.case(NODEID, PASSED[0].cases[0])
    assert main(["recover", str(tmp_path / "journal"), "-o", str(tmp_path / "report.json")]) == 0
    document = read(tmp_path / "report.json")
    assert document.kernels == PASSED
    assert not document.complete
    assert not (tmp_path / "journal" / "qualified-configurations.json").exists()


@pytest.mark.parametrize("output", ["missing/report.json", "journal"])
def test_recover_to_an_unusable_path_exits_with_2(
    tmp_path: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path and what to do are named."""
    with Journal(tmp_path / "journal", "main") as journal:
        journal.plan(plan_of(PASSED))
    assert main(["recover", str(tmp_path / "journal"), "-o", str(tmp_path / output)]) == 2
    assert f"cannot write '{tmp_path / output}'" in capsys.readouterr().err


def test_recover_of_a_folder_without_a_journal_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written."""
    assert main(["recover", str(tmp_path)]) == 2
    assert "plan.json" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_schema_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """Ready to be stored."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema.generate()


def test_module_runs_as_the_command() -> None:
    """`python -m pytest_kernelqual` is the same program."""
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"kernelqual {version('pytest-kernelqual')}\n")


def test_help_documents_commands_and_exit_status() -> None:
    """Conventional, and complete on one page."""
    done = command("--help")
    assert done.returncode == 0
    for word in ("summary", "recover", "schema", "exit status", "--version"):
        assert word in done.stdout


@pytest.mark.parametrize("arguments", [(), ("unknown",), ("summary",), ("summary", "a", "b"), ("schema", "--x")])
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    """Usage goes to standard error."""
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: kernelqual")


def test_reader_that_goes_away_is_no_error(passed: Path) -> None:
    """`kernelqual summary FILE | head -0` prints no traceback and keeps its exit status."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as broken:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_kernelqual", "summary", passed],
            stdout=broken,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_command_needs_neither_pytest_nor_torch(passed: Path) -> None:
    """A machine that only reads reports stays light."""
    script = (
        "import sys\n"
        "from pytest_kernelqual.cli import main\n"
        f"assert main(['summary', {str(passed)!r}]) == 0\n"
        "print(sorted({'pytest', 'torch', 'triton', 'numpy'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")
