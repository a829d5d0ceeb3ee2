"""The journal: what a killed run leaves behind, and what is made of it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from report_samples import ENVIRONMENT, candidate, candidates, case, fixed_records, kernel, mismatching, plan_of

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, FixedRecord, KernelRecord
from pytest_kernelqual.report import journal as journal_module
from pytest_kernelqual.report.document import build, read, write
from pytest_kernelqual.report.document import encode as encode_document
from pytest_kernelqual.report.journal import Journal, recover
from pytest_kernelqual.report.plan import Plan

FIXED = FixedRecord(outcome="qualified", output="sha256:00", launches=3)
FIRST = case(candidate("a"), mismatching("b"), id_="first", nodeid="q.py::k::t[first]", fixed=FIXED)
SECOND = case(candidate("a"), candidate("b"), candidate("c"), id_="second", nodeid="q.py::k::t[second]", fixed=FIXED)
RUN = [kernel(FIRST, SECOND, name="k", notes=["a note"]), kernel(name="broken", problem="does not import")]
PLAN = plan_of(RUN)


def record_case(journal: Journal, one: CaseRecord, *, finish: bool = True) -> None:
    """Write down a case as a worker does."""
    journal.fixed(one.nodeid, one.fixed)
    for record in one.candidates:
        journal.candidate(one.nodeid, record)
    if finish:
        journal.case(one.nodeid, one)


def outcomes(kernels: list[KernelRecord]) -> list[list[str]]:
    """Return the outcomes of the candidates of each case."""
    return [[record.outcome for record in one.candidates] for each in kernels for one in each.cases]


def test_finished_journal_gives_the_records_back_in_planned_order(tmp_path: Path) -> None:
    """Two workers that ended in another order change nothing, and nothing speaks against completeness."""
    with Journal(tmp_path, "gw1") as late, Journal(tmp_path, "gw0") as early:
        early.plan(PLAN)
        late.plan(PLAN)
        early.environment(ENVIRONMENT)
        record_case(late, SECOND)
        record_case(early, FIRST)
        assert (early.problem, late.problem) == ("", "")
    assert recover(tmp_path) == (RUN, ENVIRONMENT, [FIRST.nodeid, SECOND.nodeid], [])


def test_unfinished_case_keeps_what_was_journalled(tmp_path: Path) -> None:
    """The rest is `not_run` with the reason; the case fails and names its failing candidates."""
    with Journal(tmp_path, "main") as journal:
        journal.plan(replace(PLAN, incomplete_because=["-k k"], environment=ENVIRONMENT))
        record_case(journal, SECOND)
        journal.fixed(FIRST.nodeid, FIXED)
        journal.candidate(FIRST.nodeid, FIRST.candidates[1])
        journal.note("stopped by SIGTERM")
    kernels, environment, _, reasons = recover(tmp_path)

    unfinished = kernels[0].cases[0]
    assert environment == ENVIRONMENT
    assert outcomes(kernels) == [["not_run", "mismatch"], ["qualified"] * 3]
    assert unfinished.candidates[0].reason == "the run ended before this candidate"
    assert unfinished.candidates[1] == FIRST.candidates[1]
    assert unfinished.fixed == FIXED
    assert not unfinished.passed
    assert unfinished.failures == ["b: mismatch: bytes differ", "the run ended before this case was finished"]
    assert kernels[0].cases[1] == SECOND
    assert reasons == ["-k k", "stopped by SIGTERM", "the run ended before 1 of 2 cases were finished"]


def test_plan_alone_gives_a_report_in_which_nothing_ran(tmp_path: Path) -> None:
    """A run that is killed at once still says what it meant to do."""
    with Journal(tmp_path, "main") as journal:
        journal.plan(PLAN)
    kernels, environment, _, reasons = recover(tmp_path)
    assert environment is None
    assert outcomes(kernels) == [["not_run"] * 2, ["not_run"] * 3]
    assert {one.fixed.outcome for one in kernels[0].cases} == {"not_run"}
    assert kernels[1].problem == "does not import"
    assert reasons == ["the run ended before 2 of 2 cases were finished"]


def test_every_prefix_of_a_journal_is_recovered_without_invention(tmp_path: Path) -> None:
    """Wherever a kill cuts the file, what was written before stands and nothing is qualified that was not."""
    finished = case(candidate("a"), id_="1", nodeid="n1")
    unfinished = case(candidate("a"), candidate("b", "fault", reason="x"), id_="2", nodeid="n2")
    with Journal(tmp_path, "main") as journal:
        journal.plan(plan_of([kernel(finished, unfinished)]))
        record_case(journal, finished)
        record_case(journal, unfinished, finish=False)
    path = tmp_path / "main.jsonl"
    data = path.read_bytes()
    known = {(one.nodeid, record.id): record for one in (finished, unfinished) for record in one.candidates}
    recovered = 0
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        kernels, _, _, reasons = recover(tmp_path)
        run = {(one.nodeid, record.id): record for one in kernels[0].cases for record in one.candidates}
        done = {at: record for at, record in run.items() if record.outcome != "not_run"}
        assert list(run) == list(known)
        assert done == {at: known[at] for at in done}
        assert len(done) >= recovered
        recovered = len(done)
        # A line that lacks only its newline is whole.
        cut_inside_a_line = length > 0 and b"\n" not in data[length - 1 : length + 1]
        assert any("left out" in reason for reason in reasons) == cut_inside_a_line
        assert not build(kernels, None, [], reasons).complete
    assert recovered == len(known)


def test_caller_may_know_more_than_the_folder(tmp_path: Path) -> None:
    """A controller that holds the plan and finished cases loses nothing to a full disk or a missing folder."""
    found = recover(tmp_path / "missing", plan=PLAN, finished={FIRST.nodeid: FIRST, SECOND.nodeid: SECOND})
    assert found == (RUN, None, PLAN.nodeids, [])
    failed = replace(SECOND, passed=False, failures=["x"])
    with Journal(tmp_path, "gw0") as journal:
        journal.case(SECOND.nodeid, failed)
    kernels, _, _, reasons = recover(tmp_path, plan=PLAN, finished={SECOND.nodeid: SECOND})
    assert kernels[0].cases[1] == failed
    assert outcomes(kernels)[0] == ["not_run", "not_run"]
    assert reasons == ["the run ended before 1 of 2 cases were finished"]


def test_torn_line_does_not_swallow_the_next_one(tmp_path: Path) -> None:
    """A worker that goes on in a file that was cut begins a line of its own."""
    with Journal(tmp_path, "main") as journal:
        journal.plan(PLAN)
        journal.fixed(FIRST.nodeid, FIXED)
    path = tmp_path / "main.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    with Journal(tmp_path, "main") as journal:
        record_case(journal, FIRST)
    kernels, _, _, reasons = recover(tmp_path)
    assert kernels[0].cases[0] == FIRST
    assert reasons[0].startswith("a journal line cannot be read and is left out: main.jsonl line 1: ")


def test_killed_process_loses_nothing_that_it_journalled(tmp_path: Path) -> None:
    """Each record is in the file as soon as the call returns, without closing or flushing."""
    script = (
        "import os, signal, sys\n"
        "from test_journal import FIRST, PLAN, Journal\n"
        "journal = Journal(sys.argv[1], 'main')\n"
        "journal.plan(PLAN)\n"
        "journal.candidate(FIRST.nodeid, FIRST.candidates[0])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], cwd=Path(__file__).parent, check=False)
    assert done.returncode == -signal.SIGKILL
    assert outcomes(recover(tmp_path)[0])[0] == ["qualified", "not_run"]


def test_two_records_of_one_thing_let_the_bad_one_stand(tmp_path: Path) -> None:
    """A case that two workers ran, or a candidate that was tried again, is no better than its worst record."""
    bad = replace(FIRST.candidates[0], outcome="fault", evidence=None)
    for order in ((bad, FIRST.candidates[0]), (FIRST.candidates[0], bad)):
        with Journal(tmp_path, "main") as journal:
            journal.plan(PLAN)
            for record in order:
                journal.candidate(FIRST.nodeid, record)
            for record in (SECOND, replace(SECOND, passed=False, failures=["x"]), SECOND):
                journal.case(SECOND.nodeid, record)
        kernels = recover(tmp_path)[0]
        assert kernels[0].cases[0].candidates[0] == bad
        assert not kernels[0].cases[1].passed


def test_differing_plan_is_refused_and_the_first_one_stays(tmp_path: Path) -> None:
    """Workers that collected other items would make one report of two runs."""
    with Journal(tmp_path, "gw0") as one, Journal(tmp_path, "gw1") as other:
        one.plan(PLAN)
        other.plan(replace(PLAN, environment=ENVIRONMENT))  # another device plans the same
        with pytest.raises(
            DocumentError, match=r"another plan \(2 kernels, 2 cases, 5 candidates\) than .*\(1 kernels"
        ):
            other.plan(plan_of(RUN[:1]))
    assert len(recover(tmp_path)[0]) == 2


def test_records_that_the_plan_does_not_name_are_told(tmp_path: Path) -> None:
    """They have no place in the report, and do not vanish in silence either."""
    with Journal(tmp_path, "main") as journal:
        journal.plan(plan_of([kernel(FIRST, name="k")]))
        record_case(journal, FIRST)
        record_case(journal, SECOND)
    assert recover(tmp_path)[3] == [f"records of {SECOND.nodeid} are left out: the plan does not name it"]


def test_full_disk_is_remembered_and_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line is written, then nothing, then there is room again: only what did not fit is lost."""
    journal = Journal(tmp_path, "main")
    journal.plan(PLAN)
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        return real(descriptor, data[: len(data) // 2])

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    journal.candidate(FIRST.nodeid, FIRST.candidates[0])
    for broken in (half, full):
        monkeypatch.setattr(journal_module.os, "write", broken)
        journal.candidate(FIRST.nodeid, FIRST.candidates[1])
    monkeypatch.setattr(journal_module.os, "write", real)
    record_case(journal, SECOND)
    journal.close()

    assert "bytes were written; free disk space" in journal.problem
    kernels, _, _, reasons = recover(tmp_path)
    assert outcomes(kernels) == [["qualified", "not_run"], ["qualified"] * 3]
    assert "main.jsonl line 2" in reasons[0]


def test_plan_without_room_is_a_problem_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on; the session can fail with the problem at its end."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module.os, "fsync", full)
    with Journal(tmp_path, "main") as journal:
        journal.plan(PLAN)
        assert "plan.json': No space left on device" in journal.problem


def test_record_without_a_json_form_is_a_problem_and_not_an_exception(tmp_path: Path) -> None:
    """A fault of ours must not cost the user the run."""
    with Journal(tmp_path, "main") as journal:
        journal.candidate("n", candidate("a", detail={"x": object()}))
        assert "Encoding objects of type object is unsupported" in journal.problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(candidates, fixed_records)
def test_any_record_survives_the_journal(tmp_path: Path, record: CandidateRecord, fixed: FixedRecord) -> None:
    """Newlines, quotes and lone surrogates in names and reasons stay inside their line."""
    shutil.rmtree(tmp_path)
    run = [kernel(case(record, nodeid="n"))]
    with Journal(tmp_path, "main") as journal:
        journal.plan(plan_of(run))
        journal.fixed("n", fixed)
        journal.candidate("n", record)
        assert journal.problem == ""
    found = recover(tmp_path)[0][0].cases[0]
    assert (found.fixed, found.candidates) == (fixed, [record])


def test_recovered_report_is_written_and_read_like_any_other(tmp_path: Path) -> None:
    """The records of a killed run make a valid document that says why it is incomplete."""
    with Journal(tmp_path, "main") as journal:
        journal.plan(PLAN)
        record_case(journal, FIRST)
    document = build(*recover(tmp_path))
    write(tmp_path / "report.json", encode_document(document))
    assert read(tmp_path / "report.json") == document
    assert document.incomplete_because == ["the run ended before 1 of 2 cases were finished"]


@pytest.mark.parametrize("worker", ["", "a/b", "..", "a\nb", "../x"])
def test_worker_name_that_is_no_file_name_is_refused(tmp_path: Path, worker: str) -> None:
    """A journal never leaves its folder."""
    with pytest.raises(DocumentError, match="worker name"):
        Journal(tmp_path / "journal", worker)
    assert not (tmp_path / "journal").exists()


def test_journal_in_an_unusable_folder_is_refused(tmp_path: Path) -> None:
    """Said before the run starts."""
    (tmp_path / "file").write_text("")
    with pytest.raises(DocumentError, match=r"cannot journal to '.*file/main\.jsonl': .*; give a folder"):
        Journal(tmp_path / "file", "main")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (None, r"cannot read '.*plan\.json': No such file"),
        (b"{", "plan.json: Expecting property name"),
        (b"[]", r"schema is \[\]; this version reads 'kernelqual/plan/1'"),
        (b'{"schema": "kernelqual/plan/7"}', "schema is 'kernelqual/plan/7'"),
        (b'{"schema": "kernelqual/plan/1", "kernels": 1, "nodeids": []}', r"got `int` at \$\.kernels: 1"),
    ],
)
def test_recovery_needs_a_readable_plan(tmp_path: Path, plan: bytes | None, message: str) -> None:
    """Without it, nothing tells what is missing."""
    if plan is not None:
        (tmp_path / "plan.json").write_bytes(plan)
    with pytest.raises(DocumentError, match=message):
        recover(tmp_path)


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    """A session closes in its teardown whatever happened before."""
    journal = Journal(tmp_path, "main")
    journal.close()
    journal.close()
    journal.plan(Plan(kernels=[], nodeids=[]))
    journal.note("too late")
    assert "Bad file descriptor" in journal.problem
