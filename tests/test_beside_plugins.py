"""Beside other plugins: they change neither outcomes nor the report."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from scenarios import Ran, Runs, runs

SPECS = """
    import time
    from pytest_kernelqual import Case, Config, kernel_spec


    def spec(**options):
        return kernel_spec(candidates=[Config(A=1), Config(A=2)], cases=[Case(n=8), Case(n=5)], **options)


    @spec()
    def zeroth(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: x * 2

    @spec(marks=["flaky"])
    def differs(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: x * (config["A"] if config else 1)

    @spec()
    def another(case, seeded):
        x = seeded.uniform((case.n,), name="x")
        return lambda config: x + 1
"""

SLEEPING = """
    @spec()
    def sleeping(case, seeded):
        x = seeded.normal((case.n,), name="x")

        def launch(config):
            if config and case.n == 8:
                time.sleep(600)
            return x * 2

        return launch
"""

BY_HAND = """
    import pytest
    from pytest_kernelqual import Config

    @pytest.mark.flaky(reruns=3)
    @pytest.mark.kernelqual("qual_specs.py::zeroth")
    def test_never_passes(qualify):
        assert qualify(Config(A=2)).outcome == "mismatch"
"""

INI = "[pytest]\nkernelqual_paths = .\nmarkers =\n    flaky: of rerunfailures\n"
TIMES = {"duration_s", "started_at"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Start the runs of this file."""
    suite = {"qual_specs.py": SPECS, "test_hand.py": BY_HAND, "pytest.ini": INI}
    with runs(tmp_path_factory.mktemp("beside")) as started:
        started.start("alone", suite, "-rA", "-p", "no:randomly", "-p", "no:rerunfailures", "-p", "no:benchmark",
                      "-p", "no:timeout", "-p", "no:xdist", "-p", "no:cacheprovider")  # fmt: skip
        started.start("beside", suite, "-rA", "-p", "randomly", "-p", "rerunfailures", "-p", "randomly",
                      "--randomly-seed=7", "--reruns=3", "--timeout=300", "--durations=3",
                      "--benchmark-disable")  # fmt: skip
        started.start("timeout", {"qual_specs.py": SPECS + SLEEPING, "pytest.ini": INI}, "-rA", "--timeout=10",
                      "--timeout-method=signal", "-k", "sleeping or another", "-p", "no:randomly")  # fmt: skip
        yield started


def without_times(value: Any) -> Any:
    """Return a report without what differs between two runs of one kind."""
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def order(ended: Ran) -> list[str]:
    """Return the node ids in the order in which `-rA` lists what failed and passed."""
    return re.findall(r"^(?:PASSED|FAILED) (\S+)", ended.output, re.MULTILINE)


def test_shuffled_items_give_the_same_report(ran: Runs) -> None:
    """In declared order, whatever order they ran in."""
    alone, beside = ran["alone"], ran["beside"]
    assert order(alone) != order(beside)
    assert sorted(order(alone)) == sorted(order(beside))
    assert without_times(alone.report) == without_times(beside.report)
    assert [kernel["kernel"] for kernel in beside.report["kernels"][:3]] == ["zeroth", "differs", "another"]
    assert beside.report["complete"] is True


def test_items_are_never_run_again(ran: Runs) -> None:
    """Neither for --reruns, nor for a flaky mark of the spec or of a hand-written test."""
    beside = ran["beside"]
    assert beside.status == 1
    assert set(beside.failed) == {
        "qual_specs.py::differs::test_candidates[n8]",
        "qual_specs.py::differs::test_candidates[n5]",
        "test_hand.py::test_never_passes[n8]",
        "test_hand.py::test_never_passes[n5]",
    }
    assert re.search(r"=+ 4 failed, 4 passed in ", beside.output.splitlines()[-1])


def test_item_that_takes_longer_than_its_timeout_fails(ran: Runs) -> None:
    """In the report too, and the items after it run in another device process."""
    ended = ran["timeout"]
    assert "Timeout" in ended.failed["qual_specs.py::sleeping::test_candidates[n8]"]
    case = ended.cases["qual_specs.py::sleeping::test_candidates[n8]"]
    assert case["passed"] is False
    assert "Timeout" in case["failures"][0]
    assert ended.passed == {
        "qual_specs.py::another::test_candidates[n8]",
        "qual_specs.py::another::test_candidates[n5]",
        "qual_specs.py::sleeping::test_candidates[n5]",
    }
