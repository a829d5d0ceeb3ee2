"""Gates as entries of pytest-benchmark."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from acceptance import Ended
from committed_runs import agree, chosen, commit, declared, model, project, rows_of, verdicts_of
from committed_samples import null_row
from test_xdist import XDIST

BENCHMARK = ("-p", "pytest_benchmark.plugin", "--benchmark-json=benchmark.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with a config that is fine, one that is slow, a kept fixed launch and a missing row."""
    slow = declared(times={"fixed": 10.0, "x": 11.0, "y": 11.0})
    kept = declared(times={"fixed": 10.0, "x": 10.0, "y": 10.0})
    specs = {"fine": declared(), "slow": slow, "kept": kept, "missing": declared()}
    made = project(tmp_path_factory.mktemp("benchmark"), specs)
    commit(made, "fine", chosen("a"))
    commit(made, "slow", chosen("a"))
    commit(made, "kept", null_row({"n": "a"}))
    return made


@pytest.fixture(scope="module")
def ended(folder: Path) -> Ended:
    """Run it; a warning of pytest-benchmark would fail an item."""
    return model(folder, *BENCHMARK, "-W", "error")


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of pytest-benchmark's JSON by name."""
    found = json.loads((folder / "benchmark.json").read_text())["benchmarks"]
    assert len({entry["fullname"] for entry in found}) == len(found)
    return {f"{entry['group']} {entry['name']}": entry for entry in found}


def test_each_gate_is_an_entry_of_device_times(folder: Path, ended: Ended) -> None:
    """Committed config and fixed launch beside each other, in seconds of one launch; a slow one too."""
    assert ended.code == 1
    agree(ended)
    found = entries(folder)
    name = "test_committed[a-STUB_GPU]"
    assert found.keys() == {
        f"fine {name}",
        f"fine {name} fixed",
        f"slow {name}",
        f"slow {name} fixed",
        f"kept {name}",
    }
    gate = rows_of(ended)[f"fine::{name}"].gates[1]
    arm, fixed = found[f"fine {name}"], found[f"fine {name} fixed"]
    assert arm["stats"]["data"] == pytest.approx([abba[place] * 1e-6 for abba in gate.rounds for place in (1, 2)])
    assert fixed["stats"]["data"] == pytest.approx([abba[place] * 1e-6 for abba in gate.rounds for place in (0, 3)])
    assert (arm["stats"]["median"], fixed["stats"]["median"]) == pytest.approx((8e-6, 10e-6), rel=0.01)
    assert arm["stats"].keys() == fixed["stats"].keys()
    assert arm["extra_info"]["config"] == "C=x"
    assert (fixed["extra_info"]["config"], found[f"kept {name}"]["extra_info"]["config"]) == ("fixed", "fixed")
    assert found[f"slow {name}"]["extra_info"]["verdict"] == "slower_than_fixed"
    assert arm["params"] == {"n": "a"}
    assert arm["options"]["timer"] == "device_events"
    machine = json.loads((folder / "benchmark.json").read_text())["machine_info"]
    assert machine["gpu"] == {"name": "STUB GPU", "architecture": "sm_90", "driver": "1"}


def test_a_rival_near_the_margin_is_an_entry_too(tmp_path: Path) -> None:
    """With the committed config beside it, as the gate has sampled them."""
    folder = project(tmp_path, {"near": declared(times={"fixed": 10.0, "x": 8.0, "y": 7.7})})
    commit(folder, "near", chosen("a"))
    ended = model(folder, *BENCHMARK)
    name = "test_committed[a-STUB_GPU]"
    found, (gate,) = entries(folder), [one for one in rows_of(ended)[f"near::{name}"].gates if one.gate == "near_best"]
    best, own = found[f"near {name} near_best, best"], found[f"near {name} near_best"]
    assert (best["extra_info"]["config"], own["extra_info"]["config"]) == ("C=y", "C=x")
    assert best["stats"]["data"] == pytest.approx([abba[place] * 1e-6 for abba in gate.rounds for place in (0, 3)])
    assert own["stats"]["data"] == pytest.approx([abba[place] * 1e-6 for abba in gate.rounds for place in (1, 2)])


def test_a_row_that_is_measured_is_an_entry(tmp_path: Path) -> None:
    """Whether it chose a config or kept the fixed launch."""
    kept = declared(times={"fixed": 10.0, "x": 10.0, "y": 10.0})
    folder = project(tmp_path, {"chosen": declared(), "kept": kept})
    model(folder, *BENCHMARK, "--kernelqual-update")
    found, name = entries(folder), "test_committed[a-STUB_GPU]"
    assert found.keys() == {f"chosen {name}", f"chosen {name} fixed", f"kept {name}"}
    medians = (found[f"chosen {name}{arm}"]["stats"]["median"] for arm in ("", " fixed"))
    assert tuple(medians) == pytest.approx((8e-6, 10e-6), rel=0.01)


def test_each_file_of_a_run_has_all_of_them(tmp_path: Path) -> None:
    """What is saved to be compared with later runs is what `--benchmark-json` has, but for the samples."""
    folder = project(tmp_path, {"one": declared()})
    commit(folder, "one", chosen("a"))
    model(folder, *BENCHMARK, "--benchmark-autosave", "--benchmark-storage=file://saved")
    (saved,) = [json.loads(path.read_text())["benchmarks"] for path in (folder / "saved").rglob("*.json")]
    told = [(entry["name"], entry["extra_info"]) for entry in saved]
    assert told == [(entry["name"], entry["extra_info"]) for entry in entries(folder).values()]
    assert [name for name, _ in told] == ["test_committed[a-STUB_GPU]", "test_committed[a-STUB_GPU] fixed"]


def test_entries_of_the_same_device_can_be_compared(tmp_path: Path) -> None:
    """The device is not known yet when pytest-benchmark looks for other machines; one that is another is told."""
    folder = project(tmp_path, {"one": declared()})
    commit(folder, "one", chosen("a"))
    compare = ("-p", "pytest_benchmark.plugin", "--benchmark-storage=file://saved")
    model(folder, *compare, "--benchmark-save=first")
    same = model(folder, *compare, "--benchmark-compare")
    assert "test_committed[a-STUB_GPU] (NOW)" in same.text
    assert "machine_info is different" not in same.text
    assert "another GPU" not in same.text
    (saved,) = (folder / "saved").rglob("*.json")
    saved.write_text(saved.read_text().replace("STUB GPU", "OTHER GPU"))
    other = model(folder, *compare, "--benchmark-compare")
    told = "pytest-benchmark compares with entries of another GPU or driver: saved {'name': 'OTHER GPU', 'architecture'"
    assert told in other.text


@pytest.mark.parametrize(
    ("hook", "named"),
    [
        ("pytest_collection_modifyitems(items)", "items"),
        ("pytest_collection_finish(session)", "session.items"),
        ("pytest_runtest_setup(item)", "[item]"),
    ],
)
def test_a_mark_of_the_project_fails_no_gate(tmp_path: Path, hook: str, named: str) -> None:
    """Its group is that of the entry; one that comes too late, and before the tool's, leaves the entry out."""
    folder = project(tmp_path, {"one": declared()})
    commit(folder, "one", chosen("a"))
    late = "modifyitems" not in hook
    (folder / "conftest.py").write_text(
        f"import pytest\n\n@pytest.hookimpl(tryfirst=True)\ndef {hook}:\n    for item in {named}:\n"
        f"        item.add_marker(pytest.mark.benchmark(group='mine', warmup=True), append={not late})\n"
    )
    ended = model(folder, *BENCHMARK)
    assert (ended.code, set(verdicts_of(ended).values())) == (0, {"ok"})
    names = {f"mine test_committed[a-STUB_GPU]{arm}" for arm in ("", " fixed")}
    assert (folder / "benchmark.json").exists() is not late
    assert late or entries(folder).keys() == names


def test_table_and_compare_show_them(folder: Path, ended: Ended) -> None:
    """pytest-benchmark's own commands work on the file."""
    assert "benchmark 'fine': 1 tests" in ended.text
    command = [sys.executable, "-m", "pytest_benchmark", "compare", "benchmark.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert "test_committed[a-STUB_GPU] fixed" in done.stdout


@pytest.mark.parametrize("option", ["--benchmark-skip", "--benchmark-disable"])
def test_gates_run_whatever_pytest_benchmark_is_told(folder: Path, ended: Ended, option: str) -> None:
    """Its entries are gone, and the verdicts are the same."""
    (folder / "benchmark.json").unlink(missing_ok=True)
    other = model(folder, *BENCHMARK, option, "--kernelqual-json=other.json", "--junitxml=other.xml")
    written = json.loads((folder / "other.json").read_text())
    found = {row["nodeid"].partition("::")[2]: row["verdict"] for one in written["kernels"] for row in one["committed"]}
    assert found == verdicts_of(ended)
    assert other.code == 1
    assert not (folder / "benchmark.json").exists()


def test_xdist_switches_entries_off_and_gates_on(tmp_path: Path) -> None:
    """The summary says so."""
    folder = project(tmp_path, {"one": declared("a", "b")})
    commit(folder, "one", chosen("a"), chosen("b"))
    ended = model(folder, *BENCHMARK, *XDIST, "-n", "2")
    assert "pytest-benchmark switches itself off under pytest-xdist; gates were timed all the same" in ended.text
    assert all(row.gates[1].rounds for row in rows_of(ended).values())
    assert ended.code == 0
