"""What an update writes at its end, whatever its end was: whole rows only, and orphans dropped by a whole run only."""

import os
import signal
from pathlib import Path

import pytest
from acceptance import JOURNAL, finish, spec, start, wait_until
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
from msgspec import structs
from stub_timing import space_of
from test_xdist import XDIST

from pytest_kernelqual.committed.schema import CommittedFile, Row
from pytest_kernelqual.committed.store import Store

UPDATE = "--kernelqual-update"
WORKERS = (*XDIST, "-n", "2")


def rows(folder: Path, kernel: str) -> dict[str, Row]:
    """Return the rows of a file that must be whole, if it is there, by case."""
    found = Store(folder / "committed_configs").read(kernel, GPU)
    assert found is None or isinstance(found, CommittedFile), str(found)
    return {str(one.key["n"]): one for one in found.rows} if found is not None else {}


def journals(folder: Path) -> str:
    """Return what all processes of a run have journalled."""
    return "".join(path.read_text() for path in (folder / JOURNAL).glob("*.jsonl"))


@pytest.fixture
def orphaned(tmp_path: Path) -> Path:
    """Return a project with rows that no case reaches: of a spec that can be measured, and of one that cannot."""
    folder = project(tmp_path, {"one": declared("a", "b"), "noisy": declared("a")})
    commit(folder, "one", chosen("a"), chosen("gone"))
    commit(folder, "noisy", chosen("a"))
    return folder


def test_what_an_update_would_do_is_listed(tmp_path: Path) -> None:
    """Rows that would be measured, with what becomes of each, apart from rows of other devices and all other items."""
    folder = project(tmp_path, {"one": declared("a", "b"), "two": declared("a"), "bad": declared("a")})
    commit(folder, "one", chosen("a"))
    commit(folder, "one", chosen("a"), device=OTHER)
    commit(folder, "two", null_row({"n": "a"}))
    commit(folder, "bad", chosen("a")).write_text("{}")
    listing = (UPDATE, "--collect-only", "-q", "-p", "no:cacheprovider")
    text = model(folder, *listing, "--deselect", "qual_stub.py::two::test_candidates[a]").text
    refused = Store(folder / "committed_configs").read("bad", GPU)
    _, told, rest = text.partition("--kernelqual-update would measure ")
    assert told
    assert rest.splitlines()[:9] == [
        "4 rows",
        "  qual_stub.py::one::test_committed[a-STUB_GPU]: against C=x in committed_configs/one/stub_gpu.json",
        "  qual_stub.py::one::test_committed[b-STUB_GPU]: new in committed_configs/one/stub_gpu.json",
        "  qual_stub.py::two::test_committed[a-STUB_GPU]: not written, since its case a is not selected",
        f"  qual_stub.py::bad::test_committed[a-STUB_GPU]: not written: {refused}",
        "and would not measure 2 rows, only check",
        "  qual_stub.py::one::test_committed[a-OTHER_GPU]: measured on OTHER GPU, and this run uses STUB GPU",
        "  qual_stub.py::one::test_committed[b-OTHER_GPU]: measured on OTHER GPU, and this run uses STUB GPU",
        "beside 3 cases to qualify and 4 files to check",
    ]
    whole = model(folder, *listing, "--kernelqual-budget=5s", "-k", "two").text
    assert "would measure 1 row, as far as --kernelqual-budget=5s goes\n" in whole
    assert "two::test_committed[a-STUB_GPU]: against the fixed launch in committed_configs/two/stub_gpu.json" in whole
    assert "would measure" not in model(folder, "--collect-only").text


@pytest.mark.parametrize("arguments", [(), WORKERS])
def test_an_update_of_everything_drops_orphans(orphaned: Path, arguments: tuple[str, ...]) -> None:
    """They are listed with their figures, and the run passes, since nothing is wrong any more."""
    ended = model(orphaned, UPDATE, *arguments)
    assert [*rows(orphaned, "one")] == ["a", "b"]
    assert "one/stub_gpu.json: 1 kept, 0 changed, 1 added, 1 dropped\n" in ended.text
    assert "  dropped gone: C=x, 1.250 times the fixed launch's speed\n" in ended.text
    assert ended.code == 0
    (orphan,) = [one for one in rows_of(ended).values() if one.verdict == "orphan"]
    assert orphan.passed
    assert orphan.reasons[0].endswith("remove the row or declare the case; --kernelqual-update drops it")
    agree(ended)
    after = model(orphaned)
    assert after.code == 0
    assert "orphan" not in after.text


@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "not noisy"), ("qual_stub.py", "committed_configs"), ("--deselect", "qual_stub.py::noisy"),
        ("--kernelqual-budget=1ms",), ("-k", "file"), (),
    ],
)  # fmt: skip
def test_a_smaller_run_drops_nothing(orphaned: Path, arguments: tuple[str, ...]) -> None:
    """Whatever made it smaller, the row stays and its file's item fails; without --kernelqual-update too."""
    ended = model(orphaned, *([UPDATE] if arguments else []), *arguments)
    assert "gone" in rows(orphaned, "one")
    assert ended.code == 1
    assert "dropped gone" not in ended.text
    assert "key {'n': 'gone'}" in ended.text


@pytest.mark.parametrize(
    "arguments",
    [("-k", "test_committed"), ("--deselect", "qual_stub.py::two::test_candidates[b]"), (*WORKERS, "-k", "not [b]")],
)
def test_a_row_is_not_written_without_its_cases(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Each case of its key must have run; the run says which did not, and does not look like one that wrote."""
    faulty = {**spec("a", x="qualified", y="mismatch"), "times": TIMES}
    both = declared("a", "b", keys={"b": {"n": "a"}})
    folder = project(tmp_path, {"one": declared("a"), "two": both, "faulty": faulty})
    ended = model(folder, UPDATE, *arguments)
    left = {"one": "a", "two": "a", "faulty": "a"} if "test_committed" in arguments else {"two": "b"}
    for kernel, case in left.items():
        assert rows(folder, kernel) == {}
        found = rows_of(ended)[f"{kernel}::test_committed[a-STUB_GPU]"]
        assert found.reasons[-1] == f"not written: its case {case} was not selected"
    assert [*rows(folder, "one")] == ([] if "one" in left else ["a"])
    assert " a on stub_gpu: C=x: ok: not written: its case " in ended.text
    told = f"FAILED kernelqual::session - {len(left)} rows were measured and not written: leave out -k, --deselect and"
    assert told in ended.text
    assert ended.code == 1
    agree(ended)


def test_a_row_that_a_failed_case_keeps_from_being_written_says_so(tmp_path: Path) -> None:
    """Also where the row's own item failed in the end; all else is written."""
    faulty = {**spec("a", x="qualified", y="mismatch"), "times": TIMES}
    folder = project(tmp_path, {"one": declared("a"), "faulty": faulty, "torn": declared("a")})
    (folder / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture(autouse=True)\ndef broken(request):\n    yield\n"
        "    if 'torn::test_committed' in request.node.nodeid:\n        raise OSError('planted')\n"
    )
    ended = model(folder, UPDATE)
    assert {kernel: [*rows(folder, kernel)] for kernel in ("one", "faulty", "torn")} == {
        "one": ["a"], "faulty": [], "torn": [],
    }  # fmt: skip
    assert "  faulty a on stub_gpu: C=x: ok: not written: its case a did not pass\n" in ended.text
    assert rows_of(ended)["torn::test_committed[a-STUB_GPU]"].reasons[-1] == "not written: its item failed"
    assert "rows were measured and not written" not in ended.text
    assert ended.code == 1


def test_an_orphan_that_could_not_be_dropped_fails_the_run(tmp_path: Path) -> None:
    """One row of its spec could not be measured; orphans of another device, and whole files, are left alone too."""
    specs = {"one": declared("a", noise=0.1), "two": declared("a"), "three": declared("a")}
    folder = project(tmp_path, specs)
    for kernel in ("one", "two", "renamed"):
        commit(folder, kernel, chosen("a"), chosen("gone"))
    commit(folder, "three", chosen("a"), chosen("gone"), device=OTHER)
    ended = model(folder, UPDATE)
    assert [[*rows(folder, kernel)] for kernel in ("one", "two", "renamed")] == [["a", "gone"], ["a"], ["a", "gone"]]
    assert len(Store(folder / "committed_configs").read_all().files) == 5
    assert (
        "FAILED kernelqual::session - 1 rows that nothing reaches were not dropped: only an update that" in ended.text
    )
    failed = {line.split()[1] for line in ended.text.splitlines() if line.startswith("FAILED committed_configs")}
    assert failed == {"committed_configs/renamed/stub_gpu.json::file", "committed_configs/three/other_gpu.json::file"}
    agree(ended)


@pytest.mark.parametrize(
    ("number", "arguments"), [(signal.SIGINT, ()), (signal.SIGTERM, WORKERS), (signal.SIGKILL, ())]
)
def test_an_update_that_is_ended_writes_whole_rows_only(
    tmp_path: Path, number: signal.Signals, arguments: tuple[str, ...]
) -> None:
    """Ctrl-C writes rows whose cases passed, a kill nothing; a row that hangs is not written, and none is dropped."""
    specs = {"old": declared("a"), "one": declared("a", "b"), "hung": declared("a")}
    folder = project(tmp_path / "project", specs)
    # Where no lock is held, which would keep other workers from timing.
    (folder / "conftest.py").write_text(
        "import pathlib, time\n\ndef pytest_runtest_setup(item):\n    if 'hung' in item.nodeid:\n"
        f"        pathlib.Path({str(tmp_path / 'hangs')!r}).touch()\n        time.sleep(3600)\n"
    )
    path = commit(folder, "old", chosen("a", "y"), chosen("gone"), space=space_of("before an edit"))
    before = path.read_bytes()
    running = start(folder, *MODEL, UPDATE, *arguments, **alone(folder))
    wait_until((tmp_path / "hangs").exists, "it never hung")
    wait_until(lambda: '"line":"row"' in journals(folder), "no row was finished")
    os.kill(running.pid, number)
    ended = finish(running, folder)
    assert "gone" in rows(folder, "old")
    if number == signal.SIGKILL:
        assert path.read_bytes() == before
        assert [*path.parent.parent.glob("*/*")] == [path]
        return
    assert ended.code == pytest.ExitCode.INTERRUPTED
    finished = {
        (kernel.kernel, one.key["n"])
        for kernel in ended.document.kernels
        for one in kernel.committed
        if one.proposal and all(case.passed for case in kernel.cases if case.key == one.key)
    }
    written = {
        (kernel, case)
        for kernel in ("old", "one", "hung")
        for case, one in rows(folder, kernel).items()
        if one.config == {"C": "x"} and case != "gone"
    }
    assert written == finished
    assert finished == {("old", "a"), ("one", "a"), ("one", "b")} or arguments


def test_workers_write_what_a_serial_update_writes(tmp_path: Path) -> None:
    """The same rows with the same configs, and nothing else in the folder."""
    found = []
    for name, arguments in (("serial", ()), ("spread", (*XDIST, "-n", "4"))):
        folder = project(tmp_path / name, {kernel: declared("a", "b", "c") for kernel in ("one", "two", "three")})
        ended = model(folder, UPDATE, *arguments)
        assert ended.code == 0, ended.text
        kernels = {kernel: rows(folder, kernel) for kernel in ("one", "two", "three")}
        found.append({kernel: {case: one.config for case, one in made.items()} for kernel, made in kernels.items()})
        assert len([*(folder / "committed_configs").rglob("[!.]*")]) == 6
    assert found[0] == found[1] == {kernel: {key: {"C": "x"} for key in "abc"} for kernel in ("one", "two", "three")}


def test_two_updates_at_once(tmp_path: Path) -> None:
    """Each adds its row to the same file."""
    folder = project(tmp_path / "project", {"one": declared("a", "b")})
    running = [
        start(folder, *MODEL, UPDATE, "-k", f"[{case}", f"--kernelqual-json={case}", **alone(folder)) for case in "ab"
    ]
    assert [finish(one, folder).code for one in running] == [0, 0]
    assert [*rows(folder, "one")] == ["a", "b"]


def test_a_device_of_the_same_name(tmp_path: Path) -> None:
    """Its rows are another device's; the file of this one gets a name of its own, and node ids tell them apart."""
    folder = project(tmp_path, {"one": declared("a")})
    partition = structs.replace(GPU, compute_units=66)
    before = commit(folder, "one", chosen("a", "y"), device=partition).read_bytes()
    theirs, ours = (f"one::test_committed[a-STUB_GPU{more}]" for more in ("", "_sm_90_132"))
    assert verdicts_of(model(folder)) == {theirs: "not_timed", ours: "missing"}
    assert model(folder, UPDATE).code == 0
    ended = model(folder)
    assert ended.code == 0
    assert verdicts_of(ended) == {theirs: "not_timed", ours: "ok"}
    assert rows_of(ended)[theirs].reasons == [
        "measured on STUB GPU (sm_90, 66 compute units), and this run uses STUB GPU (sm_90, 132 compute units)"
    ]
    store = Store(folder / "committed_configs")
    assert store.path_for("one", partition).read_bytes() == before
    assert rows(folder, "one")["a"].config == {"C": "x"}
    agree(ended)
