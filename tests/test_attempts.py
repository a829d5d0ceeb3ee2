"""A candidate that faults is tried again: how often it faulted stands in the record."""

from pathlib import Path

import pytest
from acceptance import Ended, assert_agree, candidate, spec, stub, suite

CANDIDATES = {
    "always": "abort qualified",
    "once": "abort:once qualified",
    "once_then_wrong": "abort:wrong mismatch",
    "then_hangs": "abort:hangs hang",
    "hangs": "hang",
    "last": "qualified",
}
COUNTED = {
    "always": "fault 3 of 3",
    "once": "fault 1 of 3",
    "once_then_wrong": "fault 1 of 3",
    "then_hangs": "fault 1 of 2",
    "hangs": "timeout 1 of 1",
}
# One for each attempt that ended its process.
RESTARTS = 3 + 1 + 1 + 2 + 1


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Run all candidates in one case."""
    folder = suite(tmp_path_factory.mktemp("attempts") / "suite", {"faults": spec(**CANDIDATES)})
    return stub(folder, "--kernelqual-run-timeout=4")


@pytest.mark.parametrize("name", COUNTED)
def test_how_often_it_faulted(ended: Ended, name: str) -> None:
    """Once is enough to be a fault, whatever the other attempts gave; nothing is tried again after a hang."""
    (case,) = ended.cases.values()
    record = candidate(case, name)
    assert f"{record.outcome} {record.detail['attempts']}" == COUNTED[name]
    assert f"({record.detail['attempts']} attempts, after 0 finished launches)" in record.reason


def test_the_others_go_on(ended: Ended) -> None:
    """What comes after all these processes is qualified, and every report tells the same."""
    (case,) = ended.cases.values()
    assert candidate(case, "last").outcome == "qualified"
    assert case.restarts == RESTARTS
    assert_agree(ended)


def test_no_more_attempts_than_a_launch_may_take(tmp_path: Path) -> None:
    """An attempt that took longer than that, if only to compile, is the only one."""
    candidates = {"slow": "compile:0.6 abort", "last": "qualified"}
    ended = stub(suite(tmp_path / "suite", {"faults": spec(**candidates)}), "--kernelqual-run-timeout=0.5")
    (case,) = ended.cases.values()
    assert candidate(case, "slow").detail["attempts"] == "1 of 1"
