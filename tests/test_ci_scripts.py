"""Scripts of `.github` by themselves: what they make of reports that cannot be compared, and of very long ones."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from committed_samples import H200, changes, row, updated
from fake_github import MOST_CHARACTERS, OWNER, REPOSITORY, TOKEN, serving
from report_commands import stored
from report_samples import candidate, case, kernel, mismatching

from pytest_kernelqual.committed.store import Store

SCRIPTS = Path(__file__).parent.parent / ".github" / "scripts"
GOOD, BAD = [kernel(case(candidate("a")))], [kernel(case(mismatching("a")))]


def compared(folder: Path) -> str:
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
    text = compared(tmp_path)
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
    text = compared(tmp_path)
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
        assert compared(tmp_path) == "**A report of this run cannot be used; its log tells more.**\n\n"
        (tmp_path / "base" / "report-h200" / "report.json").unlink(missing_ok=True)


def test_without_a_base(tmp_path: Path, head: Path) -> None:
    """HEAD by itself."""
    assert compared(tmp_path).startswith("**kernelqual: failing**: 1 of 1 case fails")
    head.unlink()
    assert compared(tmp_path) == "**The run has made no report.**\n"


def proposed(folder: Path, rows: int, kernels: int) -> list[dict[str, Any]]:
    """Return the pull requests after a refresh of so many rows, by a report of so many kernels."""
    workspace, measured = folder / "main", folder / "measured"
    hostile = {"name": "a`b ``c @everyone [x](https://example.org) " + "y" * 120}
    for place, number in ((workspace, 1), (measured, rows)):
        (place / "committed_configs").mkdir(parents=True)
        chosen = [row({**hostile, "n": at}, {"C": "`x`" * min(number, 50)}) for at in range(number)]
        updated(Store(place / "committed_configs").update("rms_norm_fwd", H200, changes(*chosen)))
        (place / "committed_configs" / ".lock").unlink(missing_ok=True)
    (measured / "refresh").mkdir()
    many = [kernel(case(candidate("a", reason="why " * 80)), name=f"kernel_{at}") for at in range(kernels)]
    stored(measured / "refresh" / "report.json", many)
    git(folder, "init", "--quiet", "--bare", str(folder / "origin.git"))
    git(workspace, "init", "--quiet", "--initial-branch=main")
    git(workspace, "remote", "add", "origin", str(folder / "origin.git"))
    git(workspace, "add", ".")
    git(workspace, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message=first")
    with serving() as github:
        told = {
            "GITHUB_API_URL": github.url,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_REF_NAME": "main",
            "GITHUB_TOKEN": TOKEN,
        }
        done = subprocess.run(
            [sys.executable, SCRIPTS / "propose_refresh.py", str(measured), "h200"],
            cwd=workspace,
            env={**os.environ, **told},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, github.refused) == (0, []), done.stdout + done.stderr
        return github.pulls


def git(folder: Path, *arguments: str) -> None:
    """Run git."""
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def test_the_text_of_a_refresh_is_bounded(tmp_path: Path) -> None:
    """Detail is left out and counted, both verdicts stay, and no key or config does anything."""
    (pull,) = proposed(tmp_path, rows=500, kernels=2000)
    body = pull["body"]
    assert 60_000 < len(body) <= MOST_CHARACTERS
    assert pull["head"] == {"label": f"{OWNER}:kernelqual/refresh-h200"}
    assert body.startswith("**500 rows changed, 0 kept with new figures**\n\n- ``` rms_norm_fwd/nvidia_h200 {")
    listed = body.partition("\n\n**kernelqual: passed**: 2000 cases, ")[0].splitlines()[2:]
    assert listed[-1] == f"- {500 - len(listed) + 1} more rows, which the files of this pull request show"
    assert all(len(line) < 1000 for line in listed)
    # What stands outside of the spans is ours.
    outside = {re.sub(r"(`+) .*? \1(?!`)", "", line) for line in listed[:-1]}
    assert outside <= {"- : `no row` -> ", "- :  -> "}
    assert re.search(r"lines were left out to stay under [\d,]+ characters", body)


def test_the_text_of_a_small_refresh_is_whole(tmp_path: Path) -> None:
    """Nothing is left out."""
    (pull,) = proposed(tmp_path, rows=2, kernels=1)
    assert pull["body"].startswith("**2 rows changed, 0 kept with new figures**\n\n- ")
    assert "left out" not in pull["body"]
    assert "more rows" not in pull["body"]
