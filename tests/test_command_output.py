"""What the command does where it cannot print, write or go on: one line, an exit status of its own, nothing lost."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from report_commands import gate, row, stored
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, mismatching, plan_of

from pytest_kernelqual.cli import main
from pytest_kernelqual.model.record import DeclaredItem, KernelRecord
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord
from pytest_kernelqual.report.annotations import github, gitlab
from pytest_kernelqual.report.document import build, encode, read
from pytest_kernelqual.report.journal import Journal
from pytest_kernelqual.report.named import Named
from pytest_kernelqual.report.plan import Plan
from pytest_kernelqual.report.text import summary

COMMAND = [sys.executable, "-m", "pytest_kernelqual"]


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """Return a report with a failure in a file whose name no terminal may show."""
    bad = replace(kernel(case(candidate("a"), mismatching("b"))), nodeid="kernels/qual_\xe9\u202e.py::rms_norm_fwd")
    return stored(tmp_path / "failed.json", [bad])


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must end with status 2 and one line, and return that."""
    assert main([*map(str, arguments)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err.removeprefix("kernelqual: error: ")


def test_standard_output_without_room_is_one_line(failed: Path) -> None:
    """And not the exit status of a report that fails."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "report", failed], stdout=full, stderr=subprocess.PIPE, check=False)
        silent = subprocess.run([*COMMAND, "summary", "missing"], stdout=full, stderr=full, check=False)
    told = b"kernelqual: error: cannot write to standard output: No space left on device; send it elsewhere\n"
    assert (done.returncode, done.stderr) == (2, told)
    assert silent.returncode == 2


def test_closed_standard_output_is_one_line(failed: Path) -> None:
    """What nobody can have read is no success."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "report", failed], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"kernelqual: error: standard output is closed; ")


def test_terminal_of_ascii_gets_names_spelt_out(failed: Path) -> None:
    """A workflow command names a file, which may be called anything."""
    done = subprocess.run(
        [*COMMAND, "report", failed, "--format", "github"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(rb"::error file=kernels/qual_\xe9\u202e.py,line=1,")


def test_interrupted_command_says_so(tmp_path: Path) -> None:
    """Ctrl-C gives the status that shells expect, and no traceback."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with subprocess.Popen([*COMMAND, "summary", pipe], stderr=subprocess.PIPE) as process, pipe.open("wb"):
        # The pipe is open on both ends: the command waits for the report.
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == b"kernelqual: error: interrupted\n"
    assert process.returncode == 130


def test_fault_of_the_command_is_no_failing_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures beyond all measure, as no run writes them: status 2, and a line to report."""
    launch = TargetLaunch(id="fixed", outcome="fits", resources={"shared_bytes": 10**400})
    target = TargetRecord(target="cuda:90", shared_limit_bytes=1024, launches=[launch])
    written = stored(tmp_path / "huge.json", [kernel(case(candidate("a"), targets=[target]))])
    assert "OverflowError: " in refused(capsys, "report", written)


@pytest.mark.parametrize("arguments", [(), ("--format", "html"), ("--format", "gitlab"), ("--format", "markdown")])
def test_report_is_not_written_over_a_report(
    failed: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own file is the first that a slip of the keyboard would replace; a link to it is the same."""
    before = failed.read_bytes()
    link = failed.with_name("link.json")
    link.symlink_to(failed)
    for output in (failed, link):
        told = refused(capsys, "report", failed, *arguments, "-o", output)
        assert told == f"cannot write '{output}': the file there is a report, and would be lost; give another path\n"
    assert "and would be lost" in refused(capsys, "history", failed, "-o", failed)
    assert failed.read_bytes() == before
    assert main(["report", str(failed), "--format", "json", "-o", str(failed)]) == 1
    assert failed.read_bytes() == before


def test_merged_report_takes_the_place_of_no_input(failed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However its path is written."""
    alias, junit = failed.parent / "." / "x" / ".." / failed.name, failed.with_name("junit.xml")
    told = "is one of the files to merge; give another path\n"
    assert refused(capsys, "merge", failed, "--json", alias) == f"--json '{alias}' {told}"
    out = failed.with_name("out.json")
    assert refused(capsys, "merge", failed, junit, "--json", out, "--junitxml", junit) == f"--junitxml '{junit}' {told}"
    told = refused(capsys, "merge", failed, junit, "--json", out, "--junitxml", f"{out.parent}/./out.json")
    assert told.endswith("is the file of --json too; give another path\n")


def test_recovered_report_takes_the_place_of_reports_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else a wrong path costs a source file; so does a report that is written as JSON."""
    with Journal(tmp_path / "journal", "main") as journal:
        journal.plan(plan_of([kernel(case(candidate("a")))]))
    source = tmp_path / "kernels.py"
    source.write_text("import torch\n")
    assert "the file there is no report" in refused(capsys, "recover", tmp_path / "journal", "-o", source)
    good = stored(tmp_path / "good.json", [kernel(case(candidate("a")))])
    assert "the file there is no report" in refused(capsys, "report", good, "--format", "json", "-o", source)
    assert source.read_text() == "import torch\n"


def test_hostile_names_of_files_are_spelt_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a line break, an escape or half a character stays one clean line."""
    name = "bad\n\x1b[31m\udcff.json"
    spelt = r"bad\n\x1b[31m\udcff.json"
    (tmp_path / name).write_text("x")
    assert f"{spelt}: Expecting value" in refused(capsys, "summary", tmp_path / name)
    good = stored(tmp_path / "good.json", [kernel(case(candidate("a")), committed=[row(gate(0.8), speed_up=1.25)])])
    assert main(["history", str(tmp_path), "-o", str(tmp_path / "history.txt")]) == 1
    assert f"{spelt}: Expecting value" in capsys.readouterr().out.splitlines()[0]
    folder = tmp_path / name.removesuffix(".json")
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    assert f"{spelt.removesuffix('.json')}/plan.json: schema is None" in refused(capsys, "recover", folder)
    assert main(["summary", str(good)]) == 0


def test_pipe_in_a_folder_is_told_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reports beside it are used."""
    stored(tmp_path / "good.json", [kernel(case(candidate("a")), committed=[row(gate(0.8), speed_up=1.25)])])
    os.mkfifo(tmp_path / "pipe.json")
    assert main(["history", str(tmp_path)]) == 1
    assert "pipe.json: is a pipe" in capsys.readouterr().out


def test_items_of_two_kernels_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No run lists an item twice under two kernels."""
    record = kernel(case(candidate("a")))
    items = [DeclaredItem(nodeid=NODEID, kernel=name, place=(0, 0)) for name in (record.nodeid, "other.py::other")]
    plan = Plan(kernels=[], nodeids=[NODEID], items=items)
    path = tmp_path / "shard.json"
    path.write_bytes(encode(build([record], ENVIRONMENT, [NODEID], plan=plan)))
    told = refused(capsys, "merge", path, "--json", tmp_path / "out.json")
    assert f"lists '{NODEID}' as an item of two kernels; run the shard again" in told
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        ([], "no case and no committed config"),
        ([KernelRecord(kernel="a", nodeid="k.py::a")], "no case and no committed config"),
        ([KernelRecord(kernel="a", nodeid="k.py::a", problem=" \n")], "a: nothing ran"),
    ],
)
def test_what_fails_without_a_case_is_annotated(kernels: list[KernelRecord], told: str, tmp_path: Path) -> None:
    """The exit status and the annotations agree that it fails."""
    path = stored(tmp_path / "report.json", kernels)
    assert main(["report", str(path), "--format", "github"]) == 1
    reports = [Named("a", read(path))]
    assert github(reports).startswith("::error file=")
    assert told in gitlab(reports)
    assert "without a reason" in summary(reports[0].document) or not kernels or not kernels[0].problem


def test_ratio_beyond_all_measure_has_no_bounds(tmp_path: Path) -> None:
    """A page holds finite numbers only."""
    endless = replace(gate(0.8), ratio=[5e-324, 5e-324, 5e-324])
    for number, speed_up in enumerate((1e-300, 1e300)):
        record = kernel(case(candidate("a")), committed=[row(endless, speed_up=speed_up)])
        started = replace(ENVIRONMENT, started_at=f"2025-01-0{number + 1}T00:00:00Z")
        path = stored(tmp_path / f"{number}.json", [record], started)
        assert main(["report", str(path), "--format", "html", "-o", str(tmp_path / "page.html")]) == 0
    assert main(["history", str(tmp_path), "-o", str(tmp_path / "history.html")]) == 0


def test_case_that_passed_is_annotated_by_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hand-written test that passes may have heard of failures."""
    path = stored(tmp_path / "report.json", [kernel(case(candidate("a"), passed=True, failures=["heard of"]))])
    assert main(["report", str(path), "--format", "github"]) == 0
    assert capsys.readouterr().out == ""


def test_message_is_a_line_that_a_person_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However long the names of a report are."""
    long = KernelRecord(kernel="n" * 1_000_000, nodeid="other.py::other")
    base = stored(tmp_path / "base.json", [kernel(case(candidate("a")))])
    told = refused(capsys, "diff", base, stored(tmp_path / "head.json", [long]))
    assert told.startswith("the reports have no kernel in common: ")
    assert told.endswith("; give two reports of one project\n")
    assert len(told) < 5000


@pytest.mark.parametrize(
    ("suite", "told"),
    [
        ('tests="many"', "a figure of its test suite is no number: "),
        ('tests="1" errors="0" failures="0" skipped="0" time="nan"', "or its time is endless"),
    ],
)
def test_junit_file_of_wrong_figures_is_told(
    tmp_path: Path, suite: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written."""
    record = kernel(case(candidate("a")))
    items = [DeclaredItem(nodeid=NODEID, kernel=record.nodeid, place=(0, 0))]
    plan = Plan(kernels=[], nodeids=[NODEID], items=items)
    shard, junit = tmp_path / "shard.json", tmp_path / "junit.xml"
    shard.write_bytes(encode(build([record], ENVIRONMENT, [NODEID], plan=plan)))
    junit.write_text(f"<testsuites><testsuite name='pytest' {suite}/></testsuites>")
    outputs = ["--json", str(tmp_path / "out.json"), "--junitxml", str(tmp_path / "out.xml")]
    assert main(["merge", str(shard), str(junit), *outputs]) == 2
    assert f"junit.xml: {told}" in capsys.readouterr().err.replace("a property of its test suite has no name, ", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "shard.json"]


def test_folder_that_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reports beside it are used."""
    stored(tmp_path / "good.json", [kernel(case(candidate("a")), committed=[row(gate(0.8), speed_up=1.25)])])
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # deeper than any path may be long
        os.mkdir("x" * 250, dir_fd=at)
        inside = os.open("x" * 250, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inside
    os.close(at)
    assert main(["history", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "rms_norm_fwd" in told
    assert "not used:\n  cannot read '" in told


def test_toolchains_of_empty_reports_do_not_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that was not compared is equal."""
    empty = stored(tmp_path / "empty.json", [])
    good = stored(tmp_path / "good.json", [kernel(case(candidate("a")))])
    assert refused(capsys, "compare-toolchains", empty, empty).startswith("A holds no kernels")
    assert refused(capsys, "compare-toolchains", good, empty).startswith("B holds no kernels")


def test_gitlab_shows_the_failures_of_every_device(failed: Path) -> None:
    """Of issues with the same fingerprint it shows one."""
    reports = [Named("a", read(failed)), Named("b", read(failed))]
    fingerprints = [issue["fingerprint"] for issue in json.loads(gitlab(reports))]
    assert len({*fingerprints}) == len(fingerprints) == 2
    assert [issue["fingerprint"] for issue in json.loads(gitlab(reports[:1]))] == fingerprints[:1]


def test_merge_writes_both_files_or_none(tmp_path: Path) -> None:
    """A disk that has room for the report alone gets neither."""
    record = kernel(case(candidate("a")))
    items = [DeclaredItem(nodeid=NODEID, kernel=record.nodeid, place=(0, 0))]
    whole = build([record], ENVIRONMENT, [NODEID], plan=Plan(kernels=[], nodeids=[NODEID], items=items))
    ours = {"digest": whole.digest, "universe": whole.universe}
    told = "".join(f"<property name='kernelqual.{name}' value='{value}'/>" for name, value in ours.items())
    shard, junit = tmp_path / "shard.json", tmp_path / "junit.xml"
    shard.write_bytes(encode(whole))
    log = f"<testcase name='a'><system-out>{'x' * 100_000}</system-out></testcase>"
    junit.write_text(f"<testsuites><testsuite name='p'><properties>{told}</properties>{log}</testsuite></testsuites>")
    outputs = ["--json", str(tmp_path / "out.json"), "--junitxml", str(tmp_path / "out.xml")]
    command = [*COMMAND, "merge", str(shard), str(junit), *outputs]
    done = subprocess.run(["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", *command], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"out.xml': File too large; give a path" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "shard.json"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
