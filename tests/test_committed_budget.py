"""A budget of timing is spent on the most doubtful rows first, and the report does not tell in which order."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from acceptance import REPORT, Ended, wait_until
from committed_runs import GPU, agree, chosen, commit, declared, model, project, rows_of, verdicts_of
from committed_samples import updated
from fake_bench import stored_times
from stub_timing import space_of
from test_xdist import XDIST

from pytest_kernelqual.committed.schema import Toolchain
from pytest_kernelqual.committed.store import Changes, Store

TODAY = Toolchain(driver="1", runtime="", torch="2", triton="3", python="")
CASES = ("steady", "close", "old", "foreign", "missing")
BUDGET = ("--kernelqual-budget=5min", "-v")


@pytest.fixture
def doubtful(tmp_path: Path) -> Path:
    """Return a project with rows that are doubtful for one reason each."""
    folder = project(tmp_path, {"one": declared(*CASES), "two": declared("stale")})
    commit(folder, "one", chosen("foreign", **stored_times(10.0, 5.0)))
    today = [
        chosen("steady", **stored_times(10.0, 8.0)),
        chosen("close", **stored_times(10.0, 9.8)),
        chosen("old", **stored_times(10.0, 8.0), measured_at="2025-12-31"),
    ]
    changes = Changes(space=space_of("one"), toolchain=TODAY, rows=tuple(today))
    updated(Store(folder / "committed_configs").update("one", GPU, changes))
    commit(folder, "two", chosen("stale"), space=space_of("before an edit"))
    return folder


def order(ended: Ended) -> list[str]:
    """Return the cases of rows as they were run."""
    lines = [line.partition("::test_committed[")[2] for line in ended.text.splitlines() if "] " in line]
    return [line.partition("-STUB_GPU]")[0] for line in lines if line and "%]" in line]


def test_most_doubtful_first(doubtful: Path) -> None:
    """No usable row, not timed by the last report, other versions, a small gain, an old date; in this order."""
    assert order(model(doubtful, "-v")) == [*CASES, "stale"]
    (doubtful / REPORT).unlink()
    first = model(doubtful, *BUDGET)
    assert order(first) == ["missing", "stale", "foreign", "close", "old", "steady"]
    nodeids = [nodeid for nodeid in rows_of(first) if nodeid.startswith("one")]
    assert nodeids == [f"one::test_committed[{case}-STUB_GPU]" for case in CASES]
    agree(first)
    model(doubtful, "-k", "test_committed and (foreign or close)")
    again = model(doubtful, *BUDGET)
    assert order(again) == ["missing", "stale", "old", "steady", "foreign", "close"]
    assert verdicts_of(again) == verdicts_of(first)


def test_runs_with_a_budget_take_turns(doubtful: Path) -> None:
    """Each one times what was not timed for the longest time, so that every row has its turn."""
    turns = []
    for _ in range(5):
        ended = model(doubtful, "--kernelqual-budget=1ms", "-k", "not missing")
        began = ended.document.environment and ended.document.environment.started_at
        turns += [name for name, one in rows_of(ended).items() if one.gates]
        assert rows_of(ended)[turns[-1]].timed_at == began
        times = {name: one.timed_at for name, one in rows_of(ended).items()}
        assert {name for name, timed_at in times.items() if timed_at} == set(turns)
        wait_until(
            lambda began=began: datetime.now(UTC).isoformat(timespec="seconds") > began, "the clock stands still"
        )
    assert turns == [
        f"one::test_committed[{case}-STUB_GPU]" for case in ("foreign", "close", "old", "steady", "foreign")
    ]


@pytest.mark.parametrize("report", ["", "{", "[" * 100_000])
def test_a_report_that_cannot_be_read_is_none(doubtful: Path, report: str) -> None:
    """It tells of no gates, and stops nothing."""
    (doubtful / REPORT).write_text(report and f'{{"schema": "kernelqual/qualified-configurations/1"{report}')
    assert order(model(doubtful, *BUDGET))[:3] == ["missing", "stale", "foreign"]


def test_workers_agree_on_the_order(doubtful: Path) -> None:
    """They collect the same, and the report is that of a serial run."""
    serial = model(doubtful, *BUDGET)
    spread = model(doubtful, *BUDGET, *XDIST, "-n", "2")
    assert verdicts_of(spread) == verdicts_of(serial)
    assert [*rows_of(spread)] == [*rows_of(serial)]
    assert "collected" not in spread.because


def test_an_update_measures_the_most_doubtful_first(doubtful: Path) -> None:
    """What is missing or stale is written though the budget ends."""
    ended = model(doubtful, "--kernelqual-update", "--kernelqual-budget=1ms")
    assert [one.key["n"] for one in rows_of(ended).values() if one.proposal] == ["missing"]
    assert "one/stub_gpu.json: 3 kept, 0 changed, 1 added, 0 dropped" in ended.text.replace("4 kept", "3 kept")
