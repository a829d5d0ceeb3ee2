"""Items about committed configs on a modelled GPU: timed, judged, refreshed, within a budget."""

import os
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from acceptance import finish, run, spec, start, wait_until
from committed_runs import (
    GPU,
    MODEL,
    OTHER,
    TIMES,
    agree,
    alone,
    chosen,
    commit,
    declared,
    model,
    project,
    rows_of,
    verdicts_of,
)
from committed_samples import null_row
from fake_bench import stored_times
from stub_timing import space_of
from test_xdist import XDIST, plain

from pytest_kernelqual.committed.schema import CommittedFile
from pytest_kernelqual.committed.store import Store


def test_rows_are_timed_and_judged(tmp_path: Path) -> None:
    """One item a key and device, each with its verdict everywhere that results are told."""
    specs = {
        "fine": declared("a", "b"),
        "slow": declared(times={"fixed": 10.0, "x": 10.6, "y": 11.0}),
        "beaten": declared(times={"fixed": 10.0, "x": 8.0, "y": 7.0}),
        "decayed": declared(times={"fixed": 10.0, "x": 9.3, "y": 10.0}),
        "noisy": declared(noise=0.1),
        "synced": declared(untimeable="host sync: the launch waits for the device"),
        "dead": declared(dies="timing"),
        "broken": declared(dies="raising"),
        "bad": {**spec("a", x="mismatch", y="qualified"), "times": TIMES, "screen": "yes"},
        "unmeasured": declared(),
        "kept": declared(times={"fixed": 10.0, "x": 9.9, "y": 10.0}),
    }
    folder = project(tmp_path, specs)
    commit(folder, "fine", chosen("a"), chosen("b"))
    commit(folder, "kept", null_row({"n": "a"}))
    for name in ("slow", "beaten", "decayed", "noisy", "synced", "dead", "broken", "bad"):
        commit(folder, name, chosen("a"))
    ended = model(folder)
    assert {name: found for name, found in verdicts_of(ended).items() if name} == {
        "fine::test_committed[a-STUB_GPU]": "ok",
        "fine::test_committed[b-STUB_GPU]": "ok",
        "slow::test_committed[a-STUB_GPU]": "slower_than_fixed",
        "beaten::test_committed[a-STUB_GPU]": "slower_than_best",
        "decayed::test_committed[a-STUB_GPU]": "decayed",
        "noisy::test_committed[a-STUB_GPU]": "unmeasurable",
        "synced::test_committed[a-STUB_GPU]": "unmeasurable",
        "dead::test_committed[a-STUB_GPU]": "not_qualified",
        "broken::test_committed[a-STUB_GPU]": "not_timed",
        "bad::test_committed[a-STUB_GPU]": "not_qualified",
        "unmeasured::test_committed[a-STUB_GPU]": "missing",
        "kept::test_committed[a-STUB_GPU]": "ok",
    }
    agree(ended)
    text = ended.text
    assert "committed configs: 12 rows: 3 ok, 2 unmeasurable, 2 not_qualified," in text
    assert "  synced a on stub_gpu: C=x: unmeasurable: host sync: the launch waits for the device" in text
    assert "a on stub_gpu: C=x: slower_than_fixed\n" in text
    assert "not_slower_than_fixed: C=x against fixed: slow: +" in text
    assert "while it was timed: the device process was ended by SIGABRT" in text
    assert "a on stub_gpu: missing\n" in text
    assert "a on stub_gpu: C=x: not_qualified\n  while it was timed: " in text
    assert "fault of the tool: Traceback (most recent call last): RuntimeError: CUDA error: an illegal" in text
    properties = {one.name: one.value for one in next(iter(ended.junit)).properties()}
    assert properties["kernelqual.committed qual_stub.py::fine::test_committed[a-STUB_GPU]"].startswith("ok;C=x;0.")
    assert properties["kernelqual.committed qual_stub.py::kept::test_committed[a-STUB_GPU]"] == "ok;fixed;;"
    assert ended.document.complete


def test_what_gates_cost_is_told_of_any_report(tmp_path: Path) -> None:
    """Each sample once, decided on by two gates or not; and that nothing was timed."""
    folder = project(tmp_path, {"decayed": declared(times={"fixed": 10.0, "x": 9.3, "y": 10.0}), "missing": declared()})
    commit(folder, "decayed", chosen("a"))
    row = rows_of(model(folder, "-k", "decayed"))["decayed::test_committed[a-STUB_GPU]"]
    armed, judged, decay = row.gates
    assert (decay.gate, decay.rounds, len(decay.confirmations)) == ("decay", judged.rounds, 2)
    times = {
        gate.gate: sum(map(sum, chain(*rounds))) * gate.launches / 1e3
        for gate, rounds in ((armed, [armed.rounds]), (judged, [judged.rounds]), (decay, decay.confirmations))
    }
    assert cost(folder) == [
        f"a row, its control included: 1, {of(sum(times.values()))}",
        f"a decision without its control: 1, {of(times['not_slower_than_fixed'])}",
    ]
    untimed = [f"{what}: 0, not timed" for what in ("a row, its control included", "a decision without its control")]
    model(folder, "-k", "missing")
    assert cost(folder) == untimed
    (folder / "qualified-configurations.json").write_text("{")
    assert cost(folder) == ["qualified-configurations.json: is cut off after 1 bytes; copy it again, or run again"]


def of(time_ms: float) -> str:
    """Return how the time of one is told."""
    return f"median {time_ms:.1f} ms, longest {time_ms:.1f} ms of device time"


def cost(folder: Path) -> list[str]:
    """Return what `benchmarks/gate_cost.py` says of the report of a run."""
    script = Path(__file__).parent.parent / "benchmarks" / "gate_cost.py"
    command = [sys.executable, str(script), "qualified-configurations.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return (done.stderr or done.stdout).splitlines()


def test_a_config_that_is_only_within_tolerance_says_so(tmp_path: Path) -> None:
    """It may be committed, and neither row nor run calls its bytes equal."""
    told = "its bytes are not the fixed launch's: within the spec's tolerance"
    close = {**spec("a", x="within_tolerance", y="qualified"), "times": TIMES}
    folder = project(tmp_path, {"close": close, "was_equal": close})
    commit(folder, "was_equal", chosen("a"))
    row = "[a-STUB_GPU]"
    checked = model(folder, "-k", "was_equal")
    assert rows_of(checked)[f"was_equal::test_committed{row}"].reasons == [told]
    model(folder, "--kernelqual-update", "-k", "close")
    written = Store(folder / "committed_configs").read("close", GPU)
    assert isinstance(written, CommittedFile)
    assert (written.rows[0].config, written.rows[0].evidence) == ({"C": "x"}, "within_tolerance")
    assert written.rows[0].output is None
    ended = model(folder)
    assert verdicts_of(ended) == {f"{name}::test_committed{row}": "ok" for name in ("close", "was_equal")}
    assert {found.evidence for found in rows_of(ended).values()} == {"within_tolerance"}
    assert f"close a on stub_gpu: C=x: ok: {told}" in ended.text
    properties = {one.name: one.value for one in next(iter(ended.junit)).properties()}
    assert properties[f"kernelqual.committed qual_stub.py::close::test_committed{row}"].endswith(";within_tolerance")
    agree(ended)


def test_serial_and_four_workers_tell_the_same(tmp_path: Path) -> None:
    """The same JSON, times aside, and the same items; every gate was timed."""
    specs = {name: declared("a", "b", "c") for name in ("one", "two", "three")}
    folder = project(tmp_path, specs)
    for name in specs:
        commit(folder, name, chosen("a"), chosen("b"), chosen("c"))
        commit(folder, name, chosen("a"), device=OTHER)
    serial = model(folder)
    told = decisions(plain(serial))
    spread = model(folder, *XDIST, "-n", "4")
    assert decisions(plain(spread)) == told
    assert serial.document.digest == spread.document.digest
    assert serial.code == spread.code == 1  # keys that OTHER GPU has no rows of
    timed = {name: found for name, found in rows_of(spread).items() if "STUB_GPU" in name}
    assert len(timed) == 9
    assert all(found.gates[1].rounds for found in timed.values())
    agree(serial)
    agree(spread)


def decisions(value: Any) -> Any:
    """Return a JSON value without what a measurement gave, and without the device that xdist gave a worker."""
    measured = {"rounds", "confirmations", "ratio", "time_us", "processes", "speed_up", "timed_at", "visible"}
    if isinstance(value, dict):
        return {name: decisions(item) for name, item in value.items() if name not in measured}
    return [decisions(item) for item in value] if isinstance(value, list) else value


def test_rows_of_another_device_are_told_apart(tmp_path: Path) -> None:
    """They are checked as far as this device can, and not timed; alone they are no green run."""
    folder = project(tmp_path, {"one": declared()})
    commit(folder, "one", chosen("a"))
    commit(folder, "one", chosen("a"), device=OTHER)
    ended = model(folder)
    assert ended.code == 0
    found = rows_of(ended)["one::test_committed[a-OTHER_GPU]"]
    assert (found.verdict, found.reasons) == ("not_timed", ["measured on OTHER GPU, and this run uses STUB GPU"])
    alone = model(folder, "-k", "test_committed and OTHER")
    assert alone.code == 1
    assert "FAILED kernelqual::session - no committed config was timed on STUB GPU: 1 rows" in alone.text


def test_a_run_that_timed_nothing_fails(tmp_path: Path) -> None:
    """However many rows could not be measured, and beside one that could they warn."""
    folder = project(tmp_path, {"one": declared("a", "b", noise=0.1), "two": declared()})
    commit(folder, "one", chosen("a"), chosen("b"))
    commit(folder, "two", chosen("a"))
    assert model(folder).code == 0
    ended = model(folder, "-k", "one")
    assert ended.code == 1
    assert "no committed config was timed on STUB GPU: 2 rows, the first one: timing is too noisy" in ended.text
    assert "no committed config was timed" in ended.because


@pytest.mark.parametrize(
    ("tolerance_pct", "arguments", "verdict"),
    [
        (None, (), "slower_than_fixed"),
        (None, ("--kernelqual-tolerance=6",), "ok"),
        (6.0, (), "ok"),
        (1.0, ("--kernelqual-tolerance=6",), "slower_than_fixed"),
    ],
)
def test_tolerance(tmp_path: Path, tolerance_pct: float | None, arguments: tuple[str, ...], verdict: str) -> None:
    """4 % are too much by default; the spec's own word counts more than the option."""
    slow = declared(times={"fixed": 10.0, "x": 10.4, "y": 10.5}, tolerance_pct=tolerance_pct)
    folder = project(tmp_path, {"one": slow})
    commit(folder, "one", chosen("a", **stored_times(10.0, 10.2)))
    ended = model(folder, *arguments)
    assert verdicts_of(ended) == {"one::test_committed[a-STUB_GPU]": verdict}
    agree(ended)


@pytest.mark.parametrize(
    ("times", "given", "verdict"),
    [
        ({"fixed": 10.0, "x": 8.0, "y": 7.4}, {}, "slower_than_best"),
        ({"fixed": 10.0, "x": 8.0, "y": 7.4}, {"near_best_pct": 12.0}, "ok"),
        ({"fixed": 10.0, "x": 8.0, "y": 7.7}, {"near_best_pct": 2.0}, "slower_than_best"),
        ({"fixed": 10.0, "x": 9.2, "y": 9.5}, {}, "decayed"),
        ({"fixed": 10.0, "x": 9.2, "y": 9.5}, {"decay_pct": 30.0}, "ok"),
        ({"fixed": 10.0, "x": 8.3, "y": 9.5}, {"decay_pct": 2.0}, "decayed"),
    ],
)
def test_margins_of_a_spec(tmp_path: Path, times: dict[str, float], given: dict[str, float], verdict: str) -> None:
    """A row that was committed at 8 us against 10 us, under margins that are the spec's own or not."""
    folder = project(tmp_path, {"one": declared(times=times, **given)})
    commit(folder, "one", chosen("a"))
    assert verdicts_of(model(folder)) == {"one::test_committed[a-STUB_GPU]": verdict}


@pytest.mark.parametrize("narrow", [{"near_best_pct": 1.0}, {"decay_pct": 1.0}, {"tolerance_pct": 1.0}])
def test_the_narrowest_margin_that_is_asked_for_decides_what_is_too_noisy(
    tmp_path: Path, narrow: dict[str, float]
) -> None:
    """Arms that may differ by 5 % say nothing of 1 %."""
    wide = declared(noise=0.01, tolerance_pct=20.0)
    folder = project(tmp_path, {"wide": wide, "narrow": {**wide, **narrow}})
    commit(folder, "wide", chosen("a"))
    commit(folder, "narrow", chosen("a"))
    found = {name.partition("::")[0]: row for name, row in rows_of(model(folder)).items()}
    assert {name: row.verdict for name, row in found.items()} == {"wide": "ok", "narrow": "unmeasurable"}
    assert (found["wide"].gates[0].margin_pct, found["narrow"].gates[0].margin_pct) == (20.0, 1.0)


def test_a_row_has_the_state_of_the_cache_that_its_spec_asked_for(tmp_path: Path) -> None:
    """Its speed-up is not compared where the spec asks for another one by now, until the row is measured anew."""
    folder, row = project(tmp_path, {"one": declared()}), "one::test_committed[a-STUB_GPU]"
    for cache, before in (("warm", ""), ("cold", "warm"), ("warm", "cold")):
        (folder / "qual_stub.py").write_text(repr({"one": declared(cache=cache)}))
        if before:
            told = f"warning: committed on a {before} L2 cache, and timed on a {cache} one now: no decay is told"
            kept = rows_of(model(folder))[row]
            assert (kept.verdict, kept.reasons) == ("ok", [told])
        measured = rows_of(model(folder, "--kernelqual-update"))[row]
        assert {gate.cache for gate in measured.gates} == {cache}
        written = Store(folder / "committed_configs").read("one", GPU)
        assert isinstance(written, CommittedFile)
        assert (written.rows[0].config, written.rows[0].cache) == ({"C": "x"}, cache)
        checked = rows_of(model(folder))[row]
        assert (checked.verdict, checked.reasons) == ("ok", [])


def test_budget(tmp_path: Path) -> None:
    """Rows after it is spent are checked and not timed; they pass with a note, and the report is not complete."""
    folder = project(tmp_path, {"one": declared("a", "b"), "two": declared()})
    commit(folder, "one", chosen("a"), chosen("b"))
    commit(folder, "two", chosen("a"), space=space_of("before an edit"))
    ended = model(folder, "--kernelqual-budget=1ms")
    assert verdicts_of(ended) == {
        "one::test_committed[a-STUB_GPU]": "ok",
        "one::test_committed[b-STUB_GPU]": "not_timed",
        "two::test_committed[a-STUB_GPU]": "stale",
    }
    left = rows_of(ended)["one::test_committed[b-STUB_GPU]"]
    assert left.passed
    assert left.reasons[0].endswith("of --kernelqual-budget=0.001s before this row")
    assert left.reasons[0] in ended.text
    assert ended.because == "--kernelqual-budget left 1 of 3 committed rows untimed"
    agree(ended)
    assert set(verdicts_of(model(folder, "--kernelqual-budget=5min", "-k", "one")).values()) == {"ok"}


def test_update(tmp_path: Path) -> None:
    """What is missing and stale is measured, what cannot be keeps the fixed launch, what was not selected stays."""
    specs = {
        "fresh": declared("a", "b"),
        "edited": declared("a", "b"),
        "noisy": declared(noise=0.1),
        "failing": {**spec("a", x="qualified", y="mismatch"), "times": TIMES},
    }
    folder = project(tmp_path, specs)
    path = commit(folder, "edited", chosen("a", "y"), chosen("b", "y"), space=space_of("before an edit"))
    before = path.read_bytes()
    collected = model(folder, "--kernelqual-update", "--collect-only", "-q", "-k", "not failing").text
    assert "--kernelqual-update would measure 5 rows\n" in collected
    assert path.read_bytes() == before
    assert not (folder / "qualified-configurations.json.journal").exists()
    ended = model(folder, "--kernelqual-update", "-k", "not (edited and [b)")
    assert all(one.passed for one in rows_of(ended).values())
    agree(ended)
    gates = rows_of(ended)["fresh::test_committed[a-STUB_GPU]"].gates
    assert [(gate.gate, len(gate.confirmations)) for gate in gates] == [
        ("control", 0), ("challenger", 2), ("speed_up", 2),
    ]  # fmt: skip
    store = Store(folder / "committed_configs")
    kernels = {name: store.read(name, GPU) for name in specs}
    assert [name for name, found in kernels.items() if found is None] == ["failing"]
    fresh, edited, noisy = kernels["fresh"], kernels["edited"], kernels["noisy"]
    assert isinstance(fresh, CommittedFile)
    assert isinstance(edited, CommittedFile)
    assert isinstance(noisy, CommittedFile)
    assert [one.note.partition(": timing")[0] for one in noisy.rows] == ["fixed launch kept, not measured"]
    assert [(one.key["n"], one.config) for one in fresh.rows] == [("a", {"C": "x"}), ("b", {"C": "x"})]
    assert [(one.key["n"], one.config, edited.space_of(one)) for one in edited.rows] == [
        ("a", {"C": "x"}, space_of("edited")),
        ("b", {"C": "y"}, space_of("before an edit")),
    ]
    assert fresh.toolchain.torch == "2"
    assert "fresh/stub_gpu.json: 0 kept, 0 changed, 2 added, 0 dropped\n  added a: C=x, 1.2" in ended.text
    assert "edited/stub_gpu.json: 1 kept, 1 changed, 0 added, 0 dropped\n  changed a: C=x (was C=y), 1.2" in ended.text
    assert set(verdicts_of(model(folder, "-k", "fresh and test_committed")).values()) == {"ok"}


def test_an_update_never_writes_over_a_refused_file(tmp_path: Path) -> None:
    """The session fails, and the other kernel's file is written."""
    folder = project(tmp_path, {"one": declared(), "two": declared()})
    path = commit(folder, "one", chosen("a"))
    path.write_text("{}")
    ended = model(folder, "--kernelqual-update", "-p", "no:cacheprovider")
    assert ended.code == 1
    assert "FAILED kernelqual::session" in ended.text
    assert path.read_text() == "{}"
    assert (path.parent.parent / "two" / path.name).exists()


def test_an_update_without_a_device_is_an_error(tmp_path: Path) -> None:
    """Nothing would be measured, which must not look like a refresh that found nothing to do."""
    folder = project(tmp_path, {"one": declared()})
    for arguments in ((), ("--kernelqual-device=interpreter",), ("--collect-only",)):
        ended = run(folder, "-p", "stub_device", "-p", "pytest_kernelqual.plugin", "--kernelqual-update", *arguments)
        assert ended.code == pytest.ExitCode.USAGE_ERROR
        assert "--kernelqual-update measures on a device, and this run has none" in ended.text


@pytest.mark.parametrize("target", [None, "committed_configs", "/proc/self/no", "/proc/1"])
def test_an_update_into_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path, target: str | None) -> None:
    """A file in its place, a link to itself, to nothing, to where nobody writes: told before anything is measured."""
    folder = project(tmp_path, {"one": declared()})
    (folder / "committed_configs").rmdir()
    if target is None:
        (folder / "committed_configs").touch()
    else:
        (folder / "committed_configs").symlink_to(target)
    ended = model(folder, "--kernelqual-update", "qual_stub.py")
    assert ended.code == pytest.ExitCode.USAGE_ERROR
    assert ended.text.startswith(f"ERROR: --kernelqual: cannot write '{folder}/committed_configs/.lock': ")
    assert len(ended.text.splitlines()) == 2


def test_an_interrupted_run_names_the_rows_that_it_did_not_reach(tmp_path: Path) -> None:
    """With what it found of the others."""
    hung = spec("a", x=f"touch:{tmp_path / 'hangs'} hang")
    folder = project(tmp_path / "project", {"one": declared(), "two": hung})
    commit(folder, "one", chosen("a"))
    commit(folder, "two", chosen("a"))
    running = start(folder, *MODEL, **alone(folder))
    wait_until((tmp_path / "hangs").exists, "it never hung")
    os.kill(running.pid, signal.SIGINT)
    ended = finish(running, folder)
    assert ended.code == pytest.ExitCode.INTERRUPTED
    assert verdicts_of(ended) == {
        "one::test_committed[a-STUB_GPU]": "ok",
        "two::test_committed[a-STUB_GPU]": "not_timed",
    }
    left = rows_of(ended)["two::test_committed[a-STUB_GPU]"]
    assert (left.passed, left.reasons) == (False, ["the run ended before this row was checked"])
    assert "the run ended before 1 of 2 committed rows were checked" in ended.because


def test_a_teardown_that_fails_fails_the_row(tmp_path: Path) -> None:
    """The report does not call passed what pytest calls an error."""
    folder = project(tmp_path, {"one": declared()})
    commit(folder, "one", chosen("a"))
    (folder / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture(autouse=True)\ndef broken(request):\n    yield\n"
        "    if 'committed' in request.node.name:\n        raise OSError('planted')\n"
    )
    ended = model(folder)
    found = rows_of(ended)["one::test_committed[a-STUB_GPU]"]
    assert (found.verdict, found.passed) == ("ok", False)
    assert "the item failed: OSError: planted" in found.reasons
    assert ended.code == 1


def test_a_failure_that_is_hidden_fails_the_session(tmp_path: Path) -> None:
    """A mark that lets an item pass does not let its row pass."""
    folder = project(tmp_path, {"one": declared()})
    commit(folder, "one", chosen("a"), space=space_of("before an edit"))
    (folder / "conftest.py").write_text(
        "import pytest\n\n@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    report = yield\n    report.outcome, report.longrepr = 'passed', None\n    return report\n"
    )
    ended = model(folder)
    assert ended.code == 1
    assert "the report holds a failure that no item shows" in ended.text


def test_a_spec_file_that_does_not_import_orphans_no_file(tmp_path: Path) -> None:
    """Nobody is told to remove a file because of a syntax error elsewhere, or because of a wrong declaration."""
    folder = project(tmp_path, {"one": declared(), "wrong": {"cases": [], "candidates": {}, "problem": "wrong"}})
    commit(folder, "wrong", chosen("a"))
    commit(folder, "gone", chosen("a"))
    first = model(folder, "--co", "-q").text
    assert "wrong/stub_gpu.json::file" in first
    ended = model(folder)
    files = {name: one.verdict for name, one in rows_of(ended).items() if "::file" in name}
    assert files == {"committed_configs/gone/stub_gpu.json::file": "orphan"}
    (folder / "qual_stub.py").write_text("{")
    assert not {name for name in rows_of(model(folder)) if "::file" in name}
