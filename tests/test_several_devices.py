"""Several devices of one machine, which a stub pretends: who gets which, what is where, and the benchmark of it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from acceptance import HERE, JOURNAL, Ended, assert_agree, conftest, finish, run, spec, start, stub, suite, wait_until
from committed_runs import MODEL, alone, chosen, commit, declared
from stub_timing import digest

from pytest_kernelqual.model.record import CaseRecord, DeviceDescriptor, Environment
from pytest_kernelqual.processes import locks
from pytest_kernelqual.processes.locks import DeviceLock
from pytest_kernelqual.report.devices import together

BENCHMARK = HERE.parent / "benchmarks" / "several_devices.py"
XDIST = ("-p", "xdist.plugin")


def kernels(folder: Path, specs: dict[str, dict[str, Any]]) -> Path:
    """Write a project whose specs are in `kernels`, as in this repository, with a committed row for each case."""
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "qual_stub.py").write_text(repr(specs))
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "committed_configs").mkdir()
    for name, one in specs.items():
        commit(folder, name, *(chosen(case) for case in one["cases"]))
    return folder


class Shown(NamedTuple):
    """The benchmark's report, and how to make it again of what its runs left."""

    code: int
    text: str
    again: Callable[[], str]
    work: Path

    @property
    def problems(self) -> list[str]:
        """Return what the report calls wrong, but for the times: the stub's items take none."""
        return problems(self.text)


def problems(text: str) -> list[str]:
    """Return what a report of the benchmark calls wrong, but for the times."""
    lines = text.partition("## Problems")[2].splitlines()
    return [line for line in lines if line.startswith("* ") and "times faster" not in line and "not run" not in line]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Run the benchmark on two devices that are not there."""
    folder = tmp_path_factory.mktemp("shown")
    project = kernels(folder / "project", {f"kernel{number}": declared("a", "b", "c") for number in range(3)})
    planted = project / "planted" / "qual_planted.py"
    planted.parent.mkdir()
    faults = {"FAULT=abort": "abort", "FAULT=endless_loop": "hang"}
    planted.write_text(repr({"faults": {"cases": ["p"], "candidates": {"first": "qualified", **faults}}}))
    report = folder / "report" / "several-devices.md"
    work = folder / "work"
    command = [sys.executable, str(BENCHMARK), "--report", str(report.parent), "--work", str(work)]
    command += ["--devices", "GPU-0,GPU-1", "--root", str(project), "--planted", str(planted), "--some", "kernel0"]
    command += [f"--pytest={argument}" for argument in (*MODEL, *XDIST, "--kernelqual-run-timeout=2")]
    told = {**os.environ, **alone(project), "STUB_DEVICES": "GPU-0 GPU-1", "PYTHONPATH": str(HERE)}

    def benchmark(*arguments: str) -> int:
        return subprocess.run([*command, *arguments], env=told, stdout=subprocess.DEVNULL, check=False).returncode

    def again() -> str:
        assert benchmark("--only-report") == 1
        return report.read_text()

    return Shown(benchmark(), report.read_text(), again, work)


def test_benchmark_finds_the_same_answers(shown: Shown) -> None:
    """All runs agree, whatever the devices; planted faults cost their own; all rows are timed."""
    assert shown.problems == []
    assert shown.code == 1  # for the times
    assert "| `FAULT=abort` | fault: " in shown.text
    assert "| `FAULT=endless_loop` | timeout: " in shown.text
    # How many on which is left to how the workers get on.
    assert sum(map(int, re.findall(r"\| two \| GPU-[01] \| \d+ \| (\d+)", shown.text))) == len("abc") * 3
    assert "| choice-index | 0,1 | --kernelqual-device=cuda:1 | 0 | 1 | 1 |" in shown.text
    assert "| choice-one-worker | 1,0 |  | 1 | 1 | 1 |" in shown.text
    assert "`four` was not run: it needs more than 2 devices" in shown.text


@pytest.mark.parametrize(
    ("run", "old", "new", "problem"),
    [
        ("boards-1", digest("b"), digest("c"), "output of 3 fixed launches differs"),
        ("choice-order", '"GPU-1"', '"GPU-0"', "ran on board 0"),
        ("two", '"verdict": "ok"', '"verdict": "not_timed"', "9 rows were not timed"),
        ("two", '"device_uuid": "GPU-1"', '"device_uuid": ""', "rows were timed on no device"),
        ("faults", '"outcome": "timeout"', '"outcome": "qualified"', "FAULT=endless_loop is qualified"),
        ("four-on-two", "kernel0::test_candidates[a]", "kernel0::test_candidates[z]", "1 cases differ from `one`"),
    ],
)
def test_benchmark_names_what_differs(shown: Shown, run: str, old: str, new: str, problem: str) -> None:
    """Each kind of difference is a problem of the run that has it."""
    path = shown.work / f"{run}.json"
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))
    try:
        found = problems(shown.again())
    finally:
        path.write_text(before)
    assert any(line.startswith(f"* `{run}`") and problem in line for line in found), found


def devices_seen(ended: Ended) -> dict[str, set[str]]:
    """Return the devices on which the cases of each spec ran."""
    return {kernel.kernel: {case.device_uuid for case in kernel.cases} for kernel in ended.document.kernels}


def meeting(*names: str) -> dict[str, dict[str, Any]]:
    """Declare specs that all wait until all of them run, so that each takes a worker."""
    touched = {name: " ".join([f"touch:{name}", *(f"meet:{other}" for other in names)]) for name in names}
    return {name: spec("a", meet=f"{steps} qualified") for name, steps in touched.items()}


TWO_DEVICES = {"STUB_DEVICES": "GPU-7 GPU-9"}
# By itself a worker that is done takes the rows of another.
EACH_ITS_SPEC = ("-n", "2", "--dist", "loadscope")


@pytest.mark.parametrize("late", [{}, {"STUB_LATE": "1"}], ids=["hidden", "shown_from_outside"])
def test_devices_are_spread_over_workers(tmp_path: Path, late: dict[str, str]) -> None:
    """Each worker has one device, also where it takes a second start to hide the other; the report tells which."""
    ended = stub(suite(tmp_path, meeting("x", "y")), *XDIST, "-n", "2", **TWO_DEVICES, **late)
    assert_agree(ended)
    assert sorted(map(sorted, devices_seen(ended).values())) == [["GPU-7"], ["GPU-9"]]
    assert "kernelqual: 2 workers on 2 devices\n" in ended.text
    environment = ended.document.environment
    assert environment is not None
    assert (environment.devices, environment.device.uuid) == (["GPU-7", "GPU-9"], "")


def test_what_is_not_looked_at_somewhere_is_told() -> None:
    """Of workers, or of merged reports, however often they are merged."""
    one, other = (
        Environment(device=DeviceDescriptor(kind="cuda", name="G", architecture="a"), disturbance_checks=told)
        for told in ("on", "off: no module pynvml")
    )
    both = together([one, other])
    assert both is not None
    assert both.disturbance_checks == "off: no module pynvml; elsewhere on"
    assert together([both, one, both]) == both
    assert together([one, one]) == one


def test_more_workers_than_devices_share_them_fairly(tmp_path: Path) -> None:
    """Two of four workers on each of two devices."""
    ended = stub(suite(tmp_path, meeting(*"wxyz")), *XDIST, "-n", "4", **TWO_DEVICES)
    assert_agree(ended)
    assert sorted(*zip(*map(sorted, devices_seen(ended).values()), strict=True)) == ["GPU-7"] * 2 + ["GPU-9"] * 2
    assert "kernelqual: 4 workers on 2 devices\n" in ended.text


def test_idle_devices_are_told(tmp_path: Path) -> None:
    """With the number of workers that uses all."""
    ended = stub(suite(tmp_path, {"x": spec("a", "b")}), *XDIST, "-n", "1", STUB_DEVICES="GPU-7 GPU-8 GPU-9")
    assert_agree(ended)
    assert "kernelqual: 1 worker on 1 device, 2 of 3 idle: -n 3 uses all\n" in ended.text
    assert devices_seen(ended) == {"x": {"GPU-7"}}


@pytest.mark.parametrize(
    ("given", "workers"),
    [
        ({}, 3),
        ({"CUDA_VISIBLE_DEVICES": "GPU-9"}, 1),
        ({"PYTEST_XDIST_AUTO_NUM_WORKERS": "2"}, 2),
    ],
)
def test_auto_is_one_worker_for_each_device(tmp_path: Path, given: dict[str, str], workers: int) -> None:
    """Of those that are visible, whatever the number of cores; the user's own number stands."""
    specs = {"x": spec(*"abcdef")}
    ended = stub(suite(tmp_path, specs), *XDIST, "-n", "auto", STUB_DEVICES="GPU-7 GPU-8 GPU-9", **given)
    assert_agree(ended)
    assert f"kernelqual: {workers} worker" in ended.text


def test_auto_is_left_to_a_project_that_says_how_many(tmp_path: Path) -> None:
    """By the hook of pytest-xdist."""
    folder = suite(tmp_path, {"x": spec(*"ab")})
    conftest(folder, "def pytest_xdist_auto_num_workers(config): return 1")
    assert "kernelqual: 1 worker on" in stub(folder, *XDIST, "-n", "auto", **TWO_DEVICES).text


def test_device_asked_for_by_index_is_shared(tmp_path: Path) -> None:
    """`cuda:1` means the second device for every worker, not one of all."""
    ended = stub(suite(tmp_path, meeting("x", "y")), *XDIST, "-n", "2", "--kernelqual-device=cuda:1", **TWO_DEVICES)
    assert devices_seen(ended) == {"x": {"GPU-9"}, "y": {"GPU-9"}}
    assert "kernelqual: 2 workers on 1 device\n" in ended.text


@pytest.mark.parametrize("arguments", [(), (*XDIST, "-n", "2")])
def test_a_device_that_disappears_is_not_replaced(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Nothing runs on the device that moved up into its place; another worker does what its worker had left."""
    devices = tmp_path / "devices"
    devices.write_text("GPU-7 GPU-9")
    dying = {"first": "qualified", "deadly": "abort", "later": "qualified"}
    others = {f"other{number}": spec("a") for number in range(20)}
    folder = suite(tmp_path / "project", {"fine": spec("a"), "lost": spec("a", **dying), **others})
    conftest(
        folder,
        f"""
        def pytest_runtest_setup(item):
            if "lost" in item.nodeid:
                mine = getattr(item.config, "workerinput", {{"kernelqual_slot": 0}})["kernelqual_slot"]
                open({str(devices)!r}, "w").write(["GPU-9", "GPU-7"][mine])
        """,
    )
    ended = stub(folder, *arguments, STUB_DEVICES=str(devices))
    assert_agree(ended)
    lost = ended.cases["qual_stub.py::lost::test_candidates[a]"]
    assert "is gone" in lost.candidates[2].reason
    # The first was compared on one input set of several.
    assert [one.outcome for one in lost.candidates] == ["not_run", "fault", "not_run"]
    assert not lost.passed
    failed = [case for case in ended.cases.values() if not case.passed]
    assert len(failed) <= (3 if arguments else len(ended.cases))  # what was sent to its worker before
    assert all(case.nodeid == lost.nodeid or _is_gone(case) for case in failed)
    # It has the most candidates, and so was the first of its worker.
    expected = {"GPU-7", "GPU-9"} - {lost.device_uuid} if arguments else {lost.device_uuid}
    assert {case.device_uuid for case in ended.cases.values() if case.passed} == expected


def _is_gone(case: CaseRecord) -> bool:
    """Tell whether nothing of a case ran, since there was no device."""
    return "is gone" in case.fixed.reason and all(one.outcome == "not_run" for one in case.candidates)


@pytest.mark.parametrize("dies", ["in_setup", "in_a_candidate"])
def test_a_replaced_worker_leaves_its_device(tmp_path: Path, dies: str) -> None:
    """The one that comes for it takes the same device and no idle one; the record of the lost item tells the device."""
    # What has one candidate comes last, and the worker that lives is busy until the new one has begun it.
    specs = {
        "deadly": spec("a", first="touch:deadly meet:alive qualified", last="kill_owner"),
        "alive": spec("a", first="touch:alive meet:replaced qualified", last="qualified"),
        "replaced": spec("a", only="touch:replaced qualified"),
    }
    folder = suite(tmp_path, specs)
    if dies == "in_setup":
        conftest(
            folder,
            """
            import os, signal

            def pytest_runtest_setup(item):
                if "deadly" in item.nodeid:
                    os.kill(os.getpid(), signal.SIGKILL)
            """,
        )
    ended = stub(folder, *XDIST, "-n", "2", STUB_DEVICES="GPU-7 GPU-8 GPU-9")
    assert_agree(ended)
    assert "replacing crashed worker" in ended.text
    assert "crashed while running" in ended.cases["qual_stub.py::deadly::test_candidates[a]"].failures[0]
    seen = devices_seen(ended)
    assert seen["deadly"] == seen["replaced"]
    assert sorted(map(sorted, (seen["deadly"], seen["alive"]))) == [["GPU-7"], ["GPU-8"]]


def test_devices_of_different_kinds_fail_the_run(tmp_path: Path) -> None:
    """One report cannot stand for both."""
    named = {**TWO_DEVICES, "STUB_NAME_GPU-9": "another GPU"}
    ended = stub(suite(tmp_path, meeting("x", "y")), *XDIST, "-n", "2", **named)
    assert ended.code == 1
    assert "workers use devices of different kinds" in ended.because
    assert "another GPU (GPU-9)" in ended.because


def test_suspects_are_confirmed_on_their_own_device(tmp_path: Path) -> None:
    """A committed config that is slower than the fixed launch: three processes, all on the device that found it."""
    times = {"fixed": 10.0, "x": 12.0, "y": 13.0}
    specs = {name: declared("a", times=times, meet=f"touch:{name} meet:{other}") for name, other in ("vw", "wv")}
    for declaration in specs.values():
        declaration["candidates"] = {"x": f"{declaration.pop('meet')} qualified", "y": "qualified"}
    folder = kernels(tmp_path / "project", specs)
    timed = tmp_path / "timed"
    environment = {**alone(folder), **TWO_DEVICES, "STUB_TIMED": str(timed)}
    ended = run(folder, *MODEL, *XDIST, *EACH_ITS_SPEC, **environment)
    rows = {kernel.kernel: kernel.committed[0] for kernel in ended.document.kernels if kernel.kernel in specs}
    assert {row.verdict for row in rows.values()} == {"slower_than_fixed"}
    assert {row.device_uuid for row in rows.values()} == {"GPU-7", "GPU-9"}
    for name, row in rows.items():
        places = {tuple(line.split()[1:]) for line in timed.read_text().splitlines() if line.startswith(f"{name} ")}
        assert {device for device, _ in places} == {row.device_uuid}
        assert len(places) == 3


def test_timing_waits_for_its_own_device_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another run has one of two devices, rows are timed on the other, and those of the one come afterwards."""
    specs = {name: declared("a") for name in ("v", "w")}
    for name, other in (("v", "w"), ("w", "v")):
        specs[name]["candidates"] = {"x": f"touch:{name} meet:{other} qualified", "y": "qualified"}
    folder = kernels(tmp_path / "project", specs)
    timed = tmp_path / "timed"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(locks, "_PLACES", ())
    held = DeviceLock("GPU-7")

    def lines(device: str) -> list[str]:
        told = timed.read_text().splitlines() if timed.exists() else []
        return [line for line in told if device in line]

    environment = {**alone(folder), **TWO_DEVICES, "STUB_TIMED": str(timed)}
    # What only compares shares the device, and would wait too.
    with held.shared():
        running = start(folder, *MODEL, *XDIST, *EACH_ITS_SPEC, **environment)
        wait_until(lambda: len(lines("GPU-9")) > 2, "nothing was timed on the free device")
        wait_until(lambda: len(lines("GPU-7")) == 1, "nothing was opened for timing on the other device")
        assert running.poll() is None
        assert len(lines("GPU-7")) == 1  # opened, and not sampled
    ended = finish(running, folder)
    assert ended.code == 0
    assert len(lines("GPU-7")) > 2


def test_rows_take_over_what_another_worker_found(tmp_path: Path) -> None:
    """All rows on one worker and all cases on the other: no candidate is tried again."""
    specs = {name: declared("a", "b") for name in ("v", "w")}
    for one in specs.values():
        one["candidates"] = {"x": f"touch:{tmp_path}/tried qualified", "y": "qualified"}
    folder = kernels(tmp_path / "project", specs)
    conftest(
        folder,
        f"""
        import pathlib, time
        from xdist.scheduler import LoadScopeScheduling

        journals = pathlib.Path({str(folder / JOURNAL)!r})

        class Apart(LoadScopeScheduling):
            def _split_scope(self, nodeid):
                return "rows" if "test_committed" in nodeid else "cases"

        def pytest_xdist_make_scheduler(config, log):
            return Apart(config, log)

        def pytest_runtest_setup(item):
            if "test_committed" in item.nodeid:
                while sum(path.read_text().count('"line":"case"') for path in journals.glob("*.jsonl")) < 4:
                    time.sleep(0.01)
                pathlib.Path({str(tmp_path / "tried")!r}).unlink(missing_ok=True)
        """,
    )
    ended = run(folder, *MODEL, *XDIST, "-n", "2", **{**alone(folder), **TWO_DEVICES})
    assert ended.code == 0
    rows = [row for kernel in ended.document.kernels for row in kernel.committed if kernel.kernel in specs]
    cases = [case for kernel in ended.document.kernels for case in kernel.cases]
    assert {row.verdict for row in rows} == {"ok"}
    assert {row.device_uuid for row in rows}.isdisjoint({case.device_uuid for case in cases})
    assert not (tmp_path / "tried").exists()
