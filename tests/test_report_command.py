"""`kernelqual report`, as a user or a workflow runs it."""

from pathlib import Path

import pytest
from report_commands import bad_reports, command
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, mismatching

from pytest_kernelqual.report.document import build, encode, write

PASSED = [kernel(case(candidate("a"), candidate("b")))]
FAILED = [kernel(case(candidate("a"), mismatching("b")))]


@pytest.fixture
def passed(tmp_path: Path) -> Path:
    """Return the JSON of a run without failures."""
    write(tmp_path / "passed.json", encode(build(PASSED, ENVIRONMENT, [NODEID])))
    return tmp_path / "passed.json"


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """Return the JSON of a run with a failure."""
    write(tmp_path / "failed.json", encode(build(FAILED, ENVIRONMENT, [NODEID])))
    return tmp_path / "failed.json"


def test_text_is_the_summary(passed: Path) -> None:
    """As `kernelqual summary` prints it."""
    done = command("report", passed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == command("summary", passed).stdout


def test_several_reports_are_shown_one_after_another(passed: Path, failed: Path) -> None:
    """Each under its name; one failure is enough for exit status 1."""
    done = command("report", passed, failed)
    assert done.returncode == 1
    assert done.stdout.index(f"== {passed} ==") < done.stdout.index(f"== {failed} ==\n")
    assert done.stdout.count("digest: sha256:") == 2


def test_json_is_the_report_itself(failed: Path) -> None:
    """In its canonical form."""
    done = command("report", failed, "--format", "json")
    assert done.returncode == 1
    assert done.stdout == failed.read_text()


def test_output_goes_to_a_file(passed: Path, tmp_path: Path) -> None:
    """What is printed tells where."""
    done = command("report", passed, "--format", "json", "-o", tmp_path / "out.json")
    assert (done.returncode, done.stdout) == (0, f"json written to {tmp_path / 'out.json'}\n")
    assert (tmp_path / "out.json").read_text() == passed.read_text()


def test_every_unusable_file_gets_a_line_and_nothing_is_written(passed: Path, tmp_path: Path) -> None:
    """Exit status 2."""
    (tmp_path / "broken.json").write_text(passed.read_text()[:300])
    done = command("report", passed, tmp_path / "none.json", tmp_path / "broken.json", "-o", tmp_path / "out.txt")
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert "cannot read" in first
    assert "none.json" in first
    assert "broken.json: " in second
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json", "github", "gitlab"])
def test_bad_reports_get_one_line_each_in_every_format(tmp_path: Path, form: str) -> None:
    """A good one beside them changes nothing: exit status 2, and nothing is written."""
    bad = bad_reports(tmp_path)
    out = tmp_path / "out"
    done = command("report", tmp_path / "good.json", *(path for path, _ in bad.values()), "--format", form, "-o", out)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) == len(bad)
    for line, (_, told) in zip(lines, bad.values(), strict=True):
        assert line.startswith("kernelqual: error: ")
        assert told in line
    assert not out.exists()


def test_report_without_any_case_fails(tmp_path: Path) -> None:
    """It proves nothing, and the first line says so."""
    write(tmp_path / "empty.json", encode(build([], ENVIRONMENT, [])))
    done = command("report", tmp_path / "empty.json", "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout.startswith("**kernelqual: failing**: no case and no committed config; on `NVIDIA H200`\n")
