"""pytest-xdist: the same report as a serial run's, devices shared out, and workers that die."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from acceptance import (
    JOURNAL,
    REPORT,
    STUB,
    Ended,
    assert_agree,
    cases_of,
    conftest,
    failed_in_junit,
    finish,
    spec,
    start,
    stub,
    suite,
    wait_until,
)
from test_outcomes import basic_run

XDIST = ("-p", "xdist.plugin")
TWO = (*XDIST, "-n", "2")

SPECS = {
    "one": spec("a", "b", "c", ok="qualified", bad="print:words mismatch"),
    "two": spec("a", "b", ok="qualified", dead="abort", hung="hang"),
    "three": spec("a", ok="qualified", none="unsupported"),
    "broken": {"cases": [], "candidates": {}, "problem": "wrong declaration"},
}
MORE = {"alone": spec("a", "b")}
TIMES = {"started_at", "duration_s"}


def without_times(value: Any) -> Any:
    """Return a JSON value without the fields that hold times."""
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def plain(ended: Ended) -> Any:
    """Return the JSON of a run, times aside."""
    return without_times(json.loads((ended.folder / REPORT).read_text()))


def ended_cases(ended: Ended) -> list[tuple[str, ...]]:
    """Return the test cases of a run with their results, in any order."""
    return sorted(
        (case.classname, case.name, *(f"{type(one).__name__} {one.message}" for one in case.result))
        for case in cases_of(ended.junit)
    )


def project(folder: Path) -> Path:
    """Write a project of two spec files, the second in a folder of its own."""
    suite(folder, SPECS)
    (folder / "later").mkdir()
    (folder / "later" / "qual_more.py").write_text(repr(MORE))
    return folder


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return a serial run on the stub."""
    ended = stub(project(tmp_path_factory.mktemp("serial") / "same"), "--kernelqual-run-timeout=1")
    assert_agree(ended)
    return ended


def test_real_kernels_give_the_same_reports() -> None:
    """`-n 2` on the suite of all outcomes: the JSON of the serial run, and its test cases."""
    ended = basic_run("-n", "2")
    assert_agree(ended)
    assert plain(ended) == plain(basic_run())
    assert ended_cases(ended) == ended_cases(basic_run())


@pytest.mark.parametrize(
    "arguments",
    [
        ("-n", "0"),
        ("-n", "2"),
        ("-n", "2", "--dist", "loadfile"),
        ("-n", "2", "--dist", "loadscope"),
        ("-n", "2", "--dist", "worksteal"),
        ("-n", "2", "--maxschedchunk", "1"),
    ],
)
def test_every_schedule_gives_the_same_reports(serial: Ended, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Declared order, not the order of finishing; also without workers."""
    ended = stub(project(tmp_path / "same"), "--kernelqual-run-timeout=1", *XDIST, *arguments)
    assert_agree(ended)
    assert plain(ended) == plain(serial)
    assert ended_cases(ended) == ended_cases(serial)
    assert ended.text.count("kernelqual device log") == serial.text.count("kernelqual device log") == 5


def test_narrowed_run_says_so_once(tmp_path: Path) -> None:
    """Every worker narrows alike; the report tells the reason once."""
    ended = stub(project(tmp_path), *TWO, "-k", "alone")
    assert ended.because.count("deselected") == 1
    assert list(ended.cases) == [f"later/qual_more.py::alone::test_candidates[{case}]" for case in "ab"]


def test_first_failure_ends_the_run(tmp_path: Path) -> None:
    """`-x`: what was finished stands, the rest is `not_run`, and the report says why."""
    specs = {"one": spec("a", bad="mismatch"), **{f"more{number}": spec("a", "b") for number in range(8)}}
    ended = stub(suite(tmp_path, specs), *TWO, "-x", "--maxschedchunk", "1")
    assert ended.code == 2
    assert "stopping after 1 failures" in ended.because
    assert ended.outcomes("qual_stub.py::one::test_candidates[a]") == {"bad": "mismatch"}
    assert len(ended.document.kernels) == 9


def test_what_failed_last_comes_first_where_that_is_asked_for(tmp_path: Path) -> None:
    """Not what takes longest."""
    many = {f"c{number}": "qualified" for number in range(9)}
    folder = suite(tmp_path, {"long": spec("a", **many), "short": spec("a"), "bad": spec("a", wrong="mismatch")})
    assert stub(folder, *TWO).code == 1
    ended = stub(folder, *XDIST, "-n", "1", "--failed-first", "-v")
    begun = re.findall(r"(?:PASSED|FAILED) qual_stub.py::(\w+)::", ended.text)
    assert begun[:3] == ["bad", "long", "short"]


DEADLY = {
    "one": spec("a", done="qualified", wrong="mismatch", deadly="kill_owner", later="qualified"),
    "two": spec("a", "b"),
    "three": spec("a", "b"),
}
ONE_A = "qual_stub.py::one::test_candidates[a]"
RECORDED = {"done": "qualified", "wrong": "mismatch", "deadly": "not_run", "later": "not_run"}


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return a run in which a kernel kills its worker."""
    folder = suite(tmp_path_factory.mktemp("crashed"), DEADLY)
    conftest(
        folder,
        """
        def pytest_kernelqual_case_finished(nodeid, case):
            print(nodeid, case["failures"], file=open("heard", "a"))
        """,
    )
    return stub(folder, *TWO)


def test_dead_worker_costs_its_item_only(crashed: Ended) -> None:
    """The item is failed, what it had finished survives, and another worker does the rest."""
    assert_agree(crashed)
    assert crashed.outcomes(ONE_A) == RECORDED
    case = crashed.cases[ONE_A]
    assert case.failures[0].startswith("worker 'gw")
    assert "crashed while running" in case.failures[0]
    assert case.failures[1] == "wrong: mismatch: stub mismatch"
    assert "crashed while running" in crashed.because
    others = [case for case in crashed.cases.values() if case.nodeid != ONE_A]
    assert len(others) == 4
    assert all(case.passed for case in others)
    assert "replacing crashed worker" in crashed.text


def test_hooks_hear_of_the_case_of_a_dead_worker(crashed: Ended) -> None:
    """The project's hook is called once for it too."""
    heard = (crashed.folder / "heard").read_text().splitlines()
    assert len(heard) == 5
    assert sum("crashed while running" in line for line in heard) == 1


def test_without_replacement_the_rest_is_not_called_done(tmp_path: Path) -> None:
    """`--max-worker-restart 0`: items that nobody ran fail the session, and the report names them `not_run`."""
    many = {f"later{number}": "qualified" for number in range(9)}  # what seems to take longest runs first
    specs = {"one": spec("a", deadly="kill_owner", **many), "two": spec("a", "b")}
    ended = stub(suite(tmp_path, specs), *XDIST, "-n", "1", "--max-worker-restart", "0")
    assert ended.code == 1
    assert "the run ended before 2 of 3 cases were finished" in ended.because
    assert set(ended.outcomes("qual_stub.py::two::test_candidates[b]").values()) == {"not_run"}
    assert failed_in_junit(ended.junit) == {"qual_stub.one.test_candidates[a]", "kernelqual.session"}
    assert not (tmp_path / JOURNAL).exists()


def test_worker_that_dies_in_a_hook_of_the_project(tmp_path: Path) -> None:
    """A conftest that kills its worker after an item had passed: the item is failed, and says by what."""
    folder = suite(tmp_path, {"one": spec("a"), "two": spec("a", "b")})
    conftest(
        folder,
        """
        def pytest_runtest_teardown(item):
            if "one" in item.nodeid and "PYTEST_XDIST_WORKER" in os.environ:
                os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    ended = stub(folder, *TWO)
    assert_agree(ended)
    assert ended.outcomes(ONE_A) == {"ok": "qualified"}
    assert not ended.cases[ONE_A].passed


def test_worker_with_an_internal_error(tmp_path: Path) -> None:
    """A hook that takes a worker down does not leave a green run."""
    folder = suite(tmp_path, {"one": spec("a", "b"), "two": spec("a", "b")})
    conftest(
        folder,
        """
        def pytest_runtest_logstart(nodeid):
            if "two" in nodeid and "PYTEST_XDIST_WORKER" in os.environ:
                raise ValueError("planted")
        """,
    )
    ended = stub(folder, *TWO)
    assert ended.code != 0
    assert "ValueError: planted" in ended.because
    assert not ended.document.complete


def test_broken_journal_of_a_worker_fails_the_session(tmp_path: Path) -> None:
    """The records came with the reports; that a dead worker's would have been lost is said."""
    folder = suite(tmp_path, {"one": spec("a", "b"), "two": spec("a", "b")})
    conftest(
        folder,
        """
        def pytest_runtest_logstart():
            if "PYTEST_XDIST_WORKER" in os.environ:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100, -1))
        """,
    )
    ended = stub(folder, *TWO)
    assert_agree(ended)
    assert "the journal is incomplete" in ended.because
    assert "kernelqual.session" in failed_in_junit(ended.junit)
    assert ended.document.controls.outcomes == {"qualified": 4}
    assert ended.document.environment is not None


def test_terminated_controller_keeps_what_the_other_worker_did(tmp_path: Path) -> None:
    """SIGTERM while one worker hangs and another has finished items: both files tell of them."""
    folder = suite(tmp_path, {"one": spec("a", hung="touch:started hang"), "two": spec("a", "b", "c")})
    running = start(folder, *STUB, *TWO)
    wait_until((folder / "started").exists, "the candidate did not start")
    wait_until(lambda: _finished(folder) >= 1, "the other worker finished nothing")
    time.sleep(2)  # the controller hears of an item's setup some time after the item began
    os.kill(running.pid, signal.SIGTERM)
    ended = finish(running, folder)
    assert ended.code == 2
    outcomes = ended.document.controls.outcomes
    assert outcomes["qualified"] >= 1
    assert outcomes["qualified"] + outcomes["not_run"] == 4
    assert "qual_stub.one.test_candidates[a]" in failed_in_junit(ended.junit)


def _finished(folder: Path) -> int:
    """Count the cases that the journals call finished."""
    return sum(path.read_text().count('"line":"case"') for path in (folder / JOURNAL).glob("*.jsonl"))
