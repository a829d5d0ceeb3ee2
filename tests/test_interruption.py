"""Runs that are ended from outside: what was finished stands, the files are valid, and no process is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from acceptance import (
    EARLIER,
    JOURNAL,
    REPORT,
    STUB,
    Ended,
    assert_agree,
    cases_of,
    conftest,
    failed_in_junit,
    finish,
    junit_name,
    of_session,
    spec,
    start,
    stub,
    suite,
    wait_until,
)

from pytest_kernelqual.report.document import read

ONE_A, ONE_B = (f"qual_stub.py::one::test_candidates[{case}]" for case in "ab")
TWO_A = "qual_stub.py::two::test_candidates[a]"
XDIST = ("-p", "xdist.plugin", "-n", "2")

# Hangs in the middle of a candidate, after one that is finished.
SPECS = {
    "one": spec("a", done="qualified", running="touch:started hang", later="qualified"),
    "two": spec(),
}
CUT = {"done": "qualified", "running": "not_run", "later": "not_run"}


def interrupted(folder: Path, number: int, *arguments: str, group: bool = False) -> Ended:
    """Run until the second candidate hangs, then send a signal to pytest, or to all of its group as a terminal does."""
    running = start(folder, *STUB, *arguments)
    wait_until((folder / "started").exists, "the candidate did not start")
    os.kill(-running.pid if group else running.pid, number)
    return finish(running, folder)


@pytest.mark.parametrize(
    ("number", "because"),
    [(signal.SIGINT, "the run was interrupted"), (signal.SIGTERM, "the run was ended by SIGTERM")],
)
def test_signal_in_the_middle_of_a_candidate(tmp_path: Path, number: int, because: str) -> None:
    """Ctrl-C, and the SIGTERM of a cancelled CI job: finished candidates stand, the rest is `not_run`."""
    ended = interrupted(suite(tmp_path, SPECS), number)
    assert ended.code == 2
    assert ended.because.splitlines() == ["the run ended before 2 of 2 cases were finished", because]
    assert ended.outcomes(ONE_A) == CUT
    assert ended.outcomes(TWO_A) == {"ok": "not_run"}
    assert failed_in_junit(ended.junit) == {junit_name(ONE_A)}
    assert [case.result[0].message for case in cases_of(ended.junit)] == [because]
    assert "report: INCOMPLETE" in ended.text
    assert not (tmp_path / JOURNAL).exists()


@pytest.mark.parametrize("arguments", [(), XDIST])
def test_signals_of_an_impatient_sender_do_not_cut_the_report_short(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A second SIGTERM while the report is being made, to the whole group, changes nothing."""
    folder = suite(tmp_path, SPECS)
    conftest(
        folder,
        """
        def pytest_kernelqual_report():
            os.kill(os.getpid(), signal.SIGTERM)

        def pytest_keyboard_interrupt():
            os.kill(os.getpid(), signal.SIGTERM)
        """,
    )
    ended = interrupted(folder, signal.SIGTERM, *arguments, group=True)
    assert ended.code == 2
    assert "the run was ended by SIGTERM" in ended.because
    assert ended.outcomes(ONE_A) == CUT


def test_signal_while_the_report_is_written_is_held_back(tmp_path: Path) -> None:
    """Ctrl-C at the very end: the report is whole, and pytest still ends as interrupted."""
    folder = suite(tmp_path, {"one": spec()})
    conftest(
        folder,
        """
        from pytest_kernelqual.hooks import results

        def write(path, data, write=results.write):
            os.kill(os.getpid(), signal.SIGINT)
            write(path, data)

        results.write = write
        """,
    )
    ended = stub(folder)
    assert ended.code == 2
    assert ended.outcomes(ONE_A) == {"ok": "qualified"}


def test_sigterm_after_the_report_does_not_cost_the_junit_file(tmp_path: Path) -> None:
    """The run had ended by itself: all files are written, and the exit code is that of the items."""
    folder = suite(tmp_path, {"one": spec()})
    conftest(folder, "def pytest_sessionfinish():\n    os.kill(os.getpid(), signal.SIGTERM)\n")
    assert_agree(stub(folder))


def test_interrupt_during_collection_is_no_complete_run(tmp_path: Path) -> None:
    """Nothing was collected, and the report does not claim otherwise."""
    folder = suite(tmp_path, SPECS)
    conftest(folder, "def pytest_collectstart():\n    raise KeyboardInterrupt\n")
    ended = stub(folder)
    assert ended.code == 2
    assert "the run was interrupted" in ended.because
    assert not (tmp_path / JOURNAL).exists()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kill a run, under which the device process hangs, and return its folder; the device process must be gone too."""
    folder = suite(tmp_path_factory.mktemp("killed"), SPECS)
    (folder / REPORT).write_text(EARLIER)
    running = start(folder, *STUB)
    wait_until((folder / "started").exists, "the candidate did not start")
    assert len(of_session(folder)) == 2
    running.kill()
    finish(running, folder)
    assert (folder / REPORT).read_text() == EARLIER
    return folder


def test_journal_of_a_killed_run_becomes_a_report(killed: Path) -> None:
    """`kernelqual recover` gives the finished records, marked incomplete."""
    out = killed / "recovered.json"
    journal = killed / JOURNAL if (killed / JOURNAL).exists() else killed / f"{JOURNAL}.previous"
    told = subprocess.run(
        [sys.executable, "-m", "pytest_kernelqual", "recover", str(journal), "-o", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1, told.stderr
    assert "report: INCOMPLETE" in told.stdout
    document = read(out)
    assert not document.complete
    assert document.environment is not None
    found = {case.nodeid: {one.id: one.outcome for one in case.candidates} for case in document.kernels[0].cases}
    assert found == {ONE_A: CUT}


def test_next_run_says_that_an_earlier_one_did_not_finish(killed: Path) -> None:
    """Its journal is set aside, the new run is not touched by it, and the run after that has nothing to say."""
    (killed / "qual_stub.py").write_text(repr({"one": spec("a", done="qualified"), "two": spec()}))
    ended = stub(killed)
    aside = killed / f"{JOURNAL}.previous"
    assert f"an earlier run did not finish; `kernelqual recover {aside}`" in ended.text
    assert_agree(ended)
    assert ended.outcomes(ONE_A) == {"done": "qualified"}
    assert (aside / "plan.json").exists()
    assert "did not finish" not in stub(killed).text


def test_kill_during_collection_leaves_nothing_to_recover(tmp_path: Path) -> None:
    """A run that never knew what it had to do is not reported as unfinished work."""
    folder = suite(tmp_path, SPECS)
    conftest(folder, "def pytest_collectstart():\n    os.kill(os.getpid(), signal.SIGKILL)\n")
    assert stub(folder).code == -signal.SIGKILL
    (folder / "conftest.py").unlink()
    (folder / "qual_stub.py").write_text(repr({"one": spec()}))
    ended = stub(folder)
    assert "did not finish" not in ended.text
    assert_agree(ended)


@pytest.mark.parametrize(("number", "group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_signal_under_xdist(tmp_path: Path, number: int, *, group: bool) -> None:
    """The controller writes valid files from what its workers had journalled; no worker or device process is left."""
    ended = interrupted(suite(tmp_path, SPECS), number, *XDIST, group=group)
    assert ended.code == 2
    assert not ended.document.complete
    assert ended.outcomes(ONE_A) == CUT
    assert [kernel.kernel for kernel in ended.document.kernels] == ["one", "two"]
    assert junit_name(ONE_A) in failed_in_junit(ended.junit)
    assert not (tmp_path / JOURNAL).exists()


def test_kill_of_the_controller_takes_workers_and_devices_along(tmp_path: Path) -> None:
    """Nothing is left running, and the journal holds what every worker had finished."""
    folder = suite(tmp_path, SPECS)
    running = start(folder, *STUB, *XDIST)
    wait_until((folder / "started").exists, "the candidate did not start")
    running.kill()
    finish(running, folder)
    lines = [json.loads(line) for path in (folder / JOURNAL).glob("gw*.jsonl") for line in path.open()]
    assert {line["record"]["id"] for line in lines if line["line"] == "candidate"} >= {"done"}
