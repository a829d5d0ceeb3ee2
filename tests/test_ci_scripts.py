"""Scripts of `.github` by themselves: what they make of reports that cannot be compared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from report_commands import stored
from report_samples import candidate, case, kernel, mismatching

SCRIPTS = Path(__file__).parent.parent / ".github" / "scripts"
GOOD, BAD = [kernel(case(candidate("a")))], [kernel(case(mismatching("a")))]


def changes(folder: Path) -> str:
    """Return what `changes` writes of the reports in `base` and `head`."""
    done = subprocess.run(
        [SCRIPTS / "changes"],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "BASE": str(folder / "base"),
            "HEAD": str(folder / "head"),
            "OUT": str(folder / "out.md"),
            "BASE_COMMIT": "ba5e",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (folder / "out.md").read_text()


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """Return the report of a run that fails; there is a folder for the one to compare it with."""
    for name in ("base", "head"):
        (tmp_path / name / "report-h200").mkdir(parents=True)
    return stored(tmp_path / "head" / "report-h200" / "report.json", BAD)


def test_changes_of_reports_that_can_be_compared(tmp_path: Path, head: Path) -> None:
    """Both verdicts, and the commit."""
    stored(tmp_path / "base" / "report-h200" / "report.json", GOOD)
    text = changes(tmp_path)
    assert text.startswith("**kernelqual: worse: 1 disqualified**\n")
    assert "**kernelqual: failing**: 1 of 1 case fails" in text
    assert text.endswith("Compared with ba5e.\n")
    assert head.is_file()


@pytest.mark.parametrize("kind", ["another version", "no kernel in common", "damaged"])
def test_a_base_that_cannot_be_used_hides_nothing_of_head(tmp_path: Path, head: Path, kind: str) -> None:
    """The verdict of HEAD stays, and the reason is said: neither is HEAD blamed, nor the commit claimed."""
    base = tmp_path / "base" / "report-h200" / "report.json"
    stored(base, [kernel(case(candidate("a")), name="another`_**kernel**")])
    told = "the reports have no kernel in common"
    if kind == "another version":
        base.write_text(base.read_text().replace("configurations/1", "configurations/0"))
        told = "schema is kernelqual/qualified-configurations/0"
    elif kind == "damaged":
        base.write_text(base.read_text()[:99])
        told = "is cut off after 99 bytes"
    text = changes(tmp_path)
    first, _, second = text.splitlines()[:3]
    assert first.startswith("**Not compared with the base**: `")
    assert told in first.replace("'", "")
    assert first.count("`") == 2
    assert first.endswith("`")
    assert second.startswith("**kernelqual: failing**: 1 of 1 case fails; on `NVIDIA H200`")
    assert "failing candidates (1: 1 mismatch)" in text
    assert "cannot be used" not in text
    assert "Compared with" not in text
    assert head.is_file()


def test_a_head_that_cannot_be_used(tmp_path: Path, head: Path) -> None:
    """Is said to be that, with a base and without."""
    stored(tmp_path / "base" / "report-h200" / "report.json", GOOD)
    head.write_text("{}")
    for _ in range(2):
        assert changes(tmp_path) == "**A report of this run cannot be used; its log tells more.**\n\n"
        (tmp_path / "base" / "report-h200" / "report.json").unlink(missing_ok=True)


def test_without_a_base(tmp_path: Path, head: Path) -> None:
    """HEAD by itself."""
    assert changes(tmp_path).startswith("**kernelqual: failing**: 1 of 1 case fails")
    head.unlink()
    assert changes(tmp_path) == "**The run has made no report.**\n"
