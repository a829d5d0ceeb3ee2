"""A run that failed as a whole, as pytest's item `kernelqual::session`, fails in whatever shows its report."""

import json
from pathlib import Path

import pytest
from acceptance import REPORT, assert_agree, spec, stub, suite
from committed_runs import chosen, commit, declared, model, project
from report_commands import command, stored
from report_samples import ENVIRONMENT, candidate, case, kernel

from pytest_kernelqual.report.document import build, encode, read, write

PROBLEM = "committed_configs/a/b.json: no item reads it; move it"
GOOD = [kernel(case(candidate("a")))]


def failed(path: Path, *problems: str) -> Path:
    """Write a report in which every case passed and the session failed."""
    write(path, encode(build(GOOD, ENVIRONMENT, [], session_problems=problems)))
    return path


def test_a_file_that_no_item_reads_fails_in_every_command(tmp_path: Path) -> None:
    """Seen by pytest alone at first: a file in `committed_configs/` outside of `kernelqual_paths`."""
    folder = project(tmp_path / "run", {"one": declared("a")})
    path = commit(folder, "one", chosen("a"))
    path.rename(path.parent.parent / "misplaced.json")
    (folder / "pytest.ini").write_text("[pytest]\nkernelqual_paths = qual_stub.py\n")
    ended = model(folder)
    assert ended.code == 1
    assert "FAILED kernelqual::session" in ended.text
    (problem,) = ended.document.session_problems
    assert problem in ended.because
    for form, told in (("text", "what fails the session (1)"), ("markdown", "failing**: the session as a whole")):
        done = command("report", folder / REPORT, "--format", form)
        assert (done.returncode, told in done.stdout) == (1, True), form


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("text", f"what fails the session (1)\n  kernelqual::session: {PROBLEM}\n"),
        (
            "markdown",
            f"on `NVIDIA H200`; INCOMPLETE\n\n**what fails the session (1)**\n\n- `kernelqual::session`: `{PROBLEM}`\n",
        ),
        ("html", f"The session failed: <bdi>{PROBLEM}</bdi>"),
        ("github", "::error file=qualified-configurations.json,line=1,title=kernelqual%3A%3Asession%3A 1 problem of"),
        ("gitlab", f'"description": "kernelqual::session: 1 problem of the run as a whole\\n{PROBLEM}"'),
        ("json", f'"session_problems": [\n    "{PROBLEM}"\n  ]'),
    ],
)
def test_every_format_tells_it_and_fails(tmp_path: Path, form: str, told: str) -> None:
    """Though every case passed; each problem stands there once, as what fails and not as what is missing."""
    out = tmp_path / "out"
    done = command("report", failed(tmp_path / "a.json", PROBLEM), "--format", form, "-o", out)
    assert (done.returncode, done.stderr) == (1, "")
    text = out.read_text()
    assert told in text
    assert "passed**" not in text
    assert "Passing: qualified" not in text
    if form == "text":
        assert text.count(PROBLEM) == 1


def test_diff_tells_sessions_that_began_and_ceased_to_fail(tmp_path: Path) -> None:
    """Worse one way, not the other, and nothing where both failed alike; each problem has its line."""
    good, bad = stored(tmp_path / "good.json", GOOD), failed(tmp_path / "bad.json", PROBLEM, "another one")
    done = command("diff", good, bad)
    assert done.returncode == 1
    assert done.stdout.startswith("worse: 2 failing sessions\n")
    assert done.stdout.endswith(
        f"\nwhat fails the session now (2)\n  kernelqual::session: {PROBLEM}\n  kernelqual::session: another one\n"
    )
    found = json.loads(command("diff", good, bad, "--format", "json").stdout)
    assert [(one["kind"], one["why"]) for one in found["changes"]] == [
        ("failing_session", PROBLEM),
        ("failing_session", "another one"),
    ]
    done = command("diff", bad, good)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "not worse: 2 passing sessions")
    assert command("diff", bad, bad).stdout.startswith("nothing changed\n")
    both = command("report", bad, "--base", bad, "--format", "markdown")
    assert both.returncode == 1
    assert "**kernelqual: failing**: the session as a whole" in both.stdout


def test_merged_shards_fail_as_one_of_them_did(tmp_path: Path) -> None:
    """What failed the session of a shard fails the whole."""
    folder = suite(tmp_path / "run", {"one": spec("a"), "two": spec("b")})
    shards = []
    for name in ("one", "two"):
        assert stub(folder, "-k", name).code == 0
        shards.append(tmp_path / f"{name}.json")
        shards[-1].write_bytes((folder / REPORT).read_bytes())
    assert command("merge", *shards, "--json", tmp_path / "merged.json").returncode == 0
    found = json.loads(shards[1].read_text())
    found["session_problems"] = [PROBLEM]
    found["incomplete_because"] = [*found["incomplete_because"], PROBLEM]
    shards[1].write_text(json.dumps(found))
    done = command("merge", *shards, "--json", tmp_path / "merged.json")
    assert done.returncode == 1
    assert f"  kernelqual::session: {PROBLEM}\n" in done.stdout
    assert read(tmp_path / "merged.json").session_problems == [PROBLEM]


def test_reports_of_before_are_read(tmp_path: Path) -> None:
    """They tell of problems as of what makes them incomplete, and pass as before."""
    path = stored(tmp_path / "a.json", GOOD, incomplete=[PROBLEM])
    found = json.loads(path.read_text())
    del found["session_problems"]
    path.write_text(json.dumps(found))
    done = command("report", path)
    assert done.returncode == 0
    assert f"report: INCOMPLETE\n  {PROBLEM}\n" in done.stdout


def test_a_run_that_fails_nowhere_has_none(tmp_path: Path) -> None:
    """The law of all runs, on one that passes."""
    ended = stub(suite(tmp_path, {"one": spec("a")}))
    assert_agree(ended)
    assert ended.document.session_problems == []
