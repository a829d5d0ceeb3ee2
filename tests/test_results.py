"""What a run leaves behind: a report that is valid, says how much it covers, and agrees with pytest."""

import json
from pathlib import Path

import pytest
from acceptance import (
    EARLIER,
    JOURNAL,
    REPORT,
    STUB,
    Ended,
    assert_agree,
    conftest,
    failed_in_junit,
    finish,
    spec,
    start,
    stub,
    suite,
    wait_until,
)

ONE_A, ONE_B, TWO = (f"qual_stub.py::{name}" for name in ("one::test_candidates[a]", "one::test_candidates[b]", "two"))
TWO_A = f"{TWO}::test_candidates[a]"
SPECS = {
    "one": spec("a", "b", ok="qualified", bad="print:said\\x1b[31m\\x07red mismatch"),
    "two": spec("a", ok="print:quiet qualified"),
}
GOOD = {"one": spec("a", "b"), "two": spec()}
HANDWRITTEN = """
import pytest
from pytest_kernelqual import Config

@pytest.mark.kernelqual("qual_stub.py::one")
def test_judges_itself(kernel_case, qualify):
    assert qualify(Config(C="bad")).outcome == "mismatch"

@pytest.mark.kernelqual("qual_stub.py::two")
def test_asserts(kernel_case, qualify):
    assert qualify(Config(C="ok")).outcome == "mismatch", "as planted"

@pytest.mark.kernelqual("qual_stub.py::two")
def test_asks_for_the_reference_only(fixed_launch):
    assert fixed_launch() == []
"""


def session_failure(ended: Ended) -> str:
    """Return what the failed item `kernelqual::session` says; exit code, JUnit and summary must show it."""
    assert ended.code == 1
    assert "kernelqual.session" in failed_in_junit(ended.junit)
    assert "FAILED kernelqual::session" in ended.text
    assert "what fails the session (" in ended.text
    return ended.text.split("_ session _", 1)[1].split("\n---", 1)[0]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return a run of everything."""
    return stub(suite(tmp_path_factory.mktemp("plain"), SPECS))


def test_plain_run_is_complete_and_agrees(plain: Ended) -> None:
    """Nothing narrowed the run, and every report tells of the same failures."""
    assert_agree(plain)
    assert plain.because == ""
    assert plain.document.controls.outcomes == {"qualified": 3, "mismatch": 2}
    assert plain.text.count("FAILED ") == 2


def test_device_log_is_shown_on_failing_items_only(plain: Ended) -> None:
    """What kernels print stands with the failure, without control characters, and not where all is well."""
    assert plain.text.count("kernelqual device log") == 2
    assert "saidred" in plain.text
    assert "\x1b[31m" not in plain.text
    assert "\x07" not in plain.text
    assert "quiet" not in plain.text


@pytest.mark.parametrize(
    ("arguments", "because", "code"),
    [
        (("-k", "two"), "2 of 3 items were deselected", 0),
        (("--deselect", ONE_A, "--deselect", ONE_B), "2 of 3 items were deselected", 0),
        (("-m", "nothing_has_it"), "3 of 3 items were deselected", 5),
        (("qual_stub.py",), "paths were given: qual_stub.py", 1),
        ((".", "--ignore", "elsewhere"), "--ignore", 1),
        (("-x",), "stopping after 1 failures", 1),
        (("--maxfail", "2"), "stopping after 2 failures", 1),
    ],
)
def test_narrowed_run_says_so(tmp_path: Path, arguments: tuple[str, ...], because: str, code: int) -> None:
    """What kept the run from everything declared is a reason in the report."""
    ended = stub(suite(tmp_path, SPECS), *arguments)
    assert because in ended.because
    assert "report: INCOMPLETE" in ended.text
    assert ended.code == code
    assert not (tmp_path / JOURNAL).exists()


def test_last_failed_is_narrower(tmp_path: Path) -> None:
    """`--lf` after a failure leaves out what passed."""
    stub(suite(tmp_path, SPECS))
    ended = stub(tmp_path, "--lf")
    assert "--lf ran only what failed last" in ended.because
    assert list(ended.cases) == [ONE_A, ONE_B]


def test_cut_short_run_keeps_what_was_done(tmp_path: Path) -> None:
    """`-x`: the failing case is recorded, the others are `not_run`, and the records stand in declared order."""
    ended = stub(suite(tmp_path, SPECS), "-x")
    assert ended.outcomes(ONE_A) == {"ok": "qualified", "bad": "mismatch"}
    assert set(ended.outcomes(TWO_A).values()) == {"not_run"}
    assert list(ended.cases) == [ONE_A, ONE_B, TWO_A]


def test_folder_of_the_report_gone_at_the_end(tmp_path: Path) -> None:
    """A report that cannot be written fails the session, and says where the records are."""
    folder = suite(tmp_path, GOOD)
    (folder / "out").mkdir()
    conftest(folder, "def pytest_runtest_logfinish():\n    shutil.rmtree('out', ignore_errors=True)\n")
    ended = stub(folder, f"--kernelqual-json=out/{REPORT}")
    told = session_failure(ended)
    assert "there is no folder" in told
    assert "1 failed, 3 passed" in ended.text


FILE_SIZE_LIMIT = """
def pytest_collection_finish():
    resource.setrlimit(resource.RLIMIT_FSIZE, (2600, -1))

LIFTED = {lifted}

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logfinish(nodeid):
    if LIFTED and "two" in nodeid:
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
"""


def test_no_room_for_the_report(tmp_path: Path) -> None:
    """Files that cannot grow, as on a full disk: the session fails, and an earlier report is left as it was."""
    folder = suite(tmp_path, SPECS)
    (folder / REPORT).write_text(EARLIER)
    conftest(folder, FILE_SIZE_LIMIT.format(lifted=False))
    ended = stub(folder)
    told = session_failure(ended)
    assert f"cannot write '{folder / REPORT}': File too large" in told
    assert f"kernelqual recover {folder / JOURNAL}" in told
    assert (folder / REPORT).read_text() == EARLIER
    assert not list(folder.glob(".kernelqual-*"))


def test_broken_journal_fails_the_session(tmp_path: Path) -> None:
    """The records of the living process are all in the report; that a kill would have lost some is said."""
    folder = suite(tmp_path, SPECS)
    conftest(folder, FILE_SIZE_LIMIT.format(lifted=True))
    ended = stub(folder)
    assert "the journal is incomplete" in session_failure(ended)
    assert "the journal is incomplete" in ended.because
    assert ended.document.controls.outcomes == {"qualified": 3, "mismatch": 2}


def test_skipped_item_fails_the_session(tmp_path: Path) -> None:
    """A conftest that skips hides an outcome: the case fails in the report, and the session with it."""
    folder = suite(tmp_path, GOOD)
    conftest(
        folder,
        """
        def pytest_collection_modifyitems(items):
            items[0].add_marker(pytest.mark.skip(reason="not today"))
        """,
    )
    ended = stub(folder)
    assert f"skipped, which hides its outcome: {ONE_A}" in session_failure(ended)
    case = ended.cases[ONE_A]
    assert case.failures[0] == "the item was skipped in setup: Skipped: not today"
    assert (case.passed, ended.cases[ONE_B].passed) == (False, True)


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_fixture_of_the_project_that_fails(tmp_path: Path, when: str) -> None:
    """An item that pytest fails is failed in the report too, whatever its candidates did."""
    folder = suite(tmp_path, GOOD)
    conftest(
        folder,
        f"""
        @pytest.fixture(autouse=True)
        def broken(request):
            for when in ("setup", "teardown"):
                if "two" in request.node.nodeid and when == "{when}":
                    raise OSError("planted")
                if when == "setup":
                    yield
        """,
    )
    ended = stub(folder)
    assert ended.code == 1
    case = ended.cases[TWO_A]
    assert not case.passed
    assert case.failures[0] == f"the item failed in {when}: OSError: planted"
    assert ended.outcomes(TWO_A) == {"ok": "not_run" if when == "setup" else "qualified"}
    assert failed_in_junit(ended.junit) == {"qual_stub.two.test_candidates[a]"}
    assert ended.because == ""


def test_handwritten_tests_judge_themselves(tmp_path: Path) -> None:
    """The report follows the test: passed over a mismatch that it wanted, failed by its own assertion."""
    folder = suite(tmp_path, SPECS)
    (folder / "test_hand.py").write_text(HANDWRITTEN)
    ended = stub(folder)
    assert_agree(ended)
    by_name = {case.nodeid.partition("::")[2]: case for case in ended.cases.values() if "test_hand" in case.nodeid}
    assert by_name["test_judges_itself[a]"].passed
    assert ended.outcomes("test_hand.py::test_judges_itself[a]") == {"C=bad": "mismatch"}
    assert by_name["test_asks_for_the_reference_only[a]"].passed
    assert by_name["test_asserts[a]"].failures[0].startswith("the item failed in call: AssertionError: as planted")


def test_outcome_that_a_conftest_hides_fails_the_session(tmp_path: Path) -> None:
    """Turning a failed item into a passed one does not make the run green."""
    folder = suite(tmp_path, SPECS)
    conftest(
        folder,
        """
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport():
            report = yield
            report.outcome = "passed"
            return report
        """,
    )
    assert "the report holds a failure that no item shows" in session_failure(stub(folder))


def test_hooks_of_the_project_hear_of_each_case_and_of_the_report(tmp_path: Path) -> None:
    """One call a case, with the case as in the report; one for the report, after it was written."""
    folder = suite(tmp_path, SPECS)
    conftest(
        folder,
        f"""
        import json
        CASES = []

        def pytest_kernelqual_case_finished(config, nodeid, case):
            CASES.append([nodeid, case["passed"]])

        def pytest_kernelqual_report(config, report):
            assert json.load(open("{REPORT}")) == json.loads(json.dumps(report))
            json.dump(CASES, open("heard.json", "w"))
        """,
    )
    ended = stub(folder)
    assert_agree(ended)
    assert json.loads((folder / "heard.json").read_text()) == [[ONE_A, False], [ONE_B, False], [TWO_A, True]]


@pytest.mark.parametrize("hook", ["pytest_kernelqual_case_finished", "pytest_kernelqual_report"])
def test_hook_of_the_project_that_raises_fails_the_session(tmp_path: Path, hook: str) -> None:
    """The run goes on and loses nothing, and the report is not called complete."""
    folder = suite(tmp_path, GOOD)
    conftest(folder, f"def {hook}():\n    raise ValueError('planted')\n")
    ended = stub(folder)
    assert f"{hook} raised ValueError: planted" in session_failure(ended)
    assert f"{hook} raised ValueError: planted" in ended.because
    assert ended.document.controls.outcomes == {"qualified": 3}


def test_internal_error_leaves_an_incomplete_report(tmp_path: Path) -> None:
    """A hook that takes pytest down is named; what was finished before stands."""
    folder = suite(tmp_path, GOOD)
    conftest(
        folder,
        """
        def pytest_runtest_logreport(report):
            if report.when == "teardown" and "two" in report.nodeid:
                raise ValueError("planted")
        """,
    )
    ended = stub(folder)
    assert ended.code == 3
    assert "ValueError: planted" in ended.because
    assert all(case.passed for case in ended.cases.values())
    assert "pytest.internal" in failed_in_junit(ended.junit)


def test_file_that_cannot_be_collected_makes_the_report_incomplete(tmp_path: Path) -> None:
    """A hand-written test file may have declared something: its error is a reason, and the rest runs if asked to."""
    folder = suite(tmp_path, GOOD)
    (folder / "test_hand.py").write_text("raise ValueError('planted')\n")
    ended = stub(folder, "--continue-on-collection-errors")
    assert ended.code == 1
    assert "test_hand.py could not be collected: ValueError: planted" in ended.because
    assert all(case.passed for case in ended.cases.values())


def test_nothing_selected_is_nothing_complete(tmp_path: Path) -> None:
    """A run without any item writes a report that says so."""
    folder = suite(tmp_path, {})
    (folder / "qual_stub.py").unlink()
    ended = stub(folder)
    assert ended.code == 5
    assert "no qualification item was selected" in ended.because


@pytest.mark.parametrize(("argument", "code"), [("no_such_file.py", 4), ("--collect-only", 0)])
def test_run_that_does_nothing_leaves_the_report_alone(tmp_path: Path, argument: str, code: int) -> None:
    """A usage error and `--collect-only` write nothing, not even a journal."""
    folder = suite(tmp_path, SPECS)
    (folder / REPORT).write_text(EARLIER)
    assert stub(folder, argument).code == code
    assert (folder / REPORT).read_text() == EARLIER
    assert not (folder / JOURNAL).exists()


def test_second_run_on_the_same_report_is_refused(tmp_path: Path) -> None:
    """Two runs at once would mix their journals; the second says so and leaves the first alone."""
    folder = suite(tmp_path, {"one": spec("a", ok="touch:started hang")})
    first = start(folder, *STUB)
    wait_until((folder / "started").exists, "the first run did not start")
    # `finish` would wait for the first run's processes too.
    second = start(folder, *STUB, "--junitxml=second.xml")
    text, _ = second.communicate(timeout=60)
    assert second.returncode == 4
    assert "another run is going on" in text
    first.terminate()
    ended = finish(first, folder)
    assert ended.code == 2
    assert "the run was ended by SIGTERM" in ended.because


def test_device_process_that_cannot_start_again_is_no_fault_of_a_kernel(tmp_path: Path) -> None:
    """After a fault no new process can be had: what comes later is `not_run`, with what the system says."""
    folder = suite(tmp_path, {"one": spec("a", dead="abort", late="qualified"), "two": spec()})
    conftest(
        folder,
        """
        import sys

        def pytest_runtest_logstart():
            sys.executable = "/nowhere/python"
        """,
    )
    ended = stub(folder)
    assert_agree(ended)
    assert ended.outcomes(ONE_A) == {"dead": "fault", "late": "not_run"}
    two = ended.cases[TWO_A]
    assert two.fixed.outcome == "not_run"
    assert "the device process did not start" in two.fixed.reason
    assert "/nowhere/python" in two.fixed.reason


def test_timeout_plugin_ends_one_item_only(tmp_path: Path) -> None:
    """pytest-timeout fires inside an item: it fails, its finished candidates stay, and the rest goes on."""
    specs = {"one": spec("a", ok="qualified", slow="hang", late="qualified"), "two": spec()}
    ended = stub(suite(tmp_path, specs), "-p", "pytest_timeout", "--timeout=1", "--timeout-method=signal")
    assert_agree(ended)
    assert ended.outcomes(ONE_A) == {"ok": "qualified", "slow": "not_run", "late": "not_run"}
    assert "Timeout" in ended.cases[ONE_A].failures[0]
    assert ended.outcomes(TWO_A) == {"ok": "qualified"}
