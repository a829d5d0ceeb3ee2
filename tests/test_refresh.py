"""Refreshing committed configs: what is replaced, what is kept, what is written and what is not."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from committed_samples import H200, KERNEL, NEWER, OTHER_SPACE, OUTPUT, SPACE, changes, null_row, row, updated
from fake_bench import KEY, bench, commit, config_of, qualified, stored_times
from fake_timing import FIXED, Machine
from msgspec import structs, to_builtins

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedFile, Row, Times
from pytest_kernelqual.committed.store import Store, UpdateReport
from pytest_kernelqual.gating import arms as gating_arms
from pytest_kernelqual.gating import refresh as gating_refresh
from pytest_kernelqual.gating.refresh import Refreshed, refresh
from pytest_kernelqual.gating.row import check
from pytest_kernelqual.hooks.refreshing import untimed, write_proposals
from pytest_kernelqual.model.case import id_of
from pytest_kernelqual.model.clocks import Clocks
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    CommittedRecord,
    DeviceDescriptor,
    Environment,
    FixedRecord,
    GateRecord,
    KernelRecord,
    Proposal,
)
from pytest_kernelqual.report.rows import refresh_summary

ENVIRONMENT = Environment(
    device=DeviceDescriptor(kind="cuda", name=H200.name, architecture=H200.architecture, compute_units=132),
    **to_builtins(NEWER),
)

INPUTS = f"sha256:{'b' * 64}"
PRODUCTION = FixedRecord(outcome="qualified", output=OUTPUT, inputs=INPUTS)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no clock to settle."""
    monkeypatch.setattr(gating_arms, "_PAUSES_S", (0.0,) * 4)


def refreshed(folder: Path, machine: Machine, **given: Any) -> Refreshed:
    """Measure the row of the key."""
    return refresh(bench(folder, machine, **given), fixed=lambda: PRODUCTION)


def row_of(found: Refreshed) -> Row:
    """Return the row that must be there."""
    assert found.row is not None, found.reason
    return found.row


@pytest.mark.parametrize(
    ("incumbent", "times", "chosen", "note"),
    [
        (None, {"A=1": 10.0, "A=2": 8.0}, "A=2", "replaces the fixed launch, best challenger A=2 +"),
        (None, {"A=1": 9.9, "A=2": 9.85}, None, "fixed launch kept, best challenger A=2 +"),
        (None, {"A=1": 12.0, "A=2": 11.0}, None, "fixed launch kept, best challenger A=2 -"),
        ("A=1", {"A=1": 8.0, "A=2": 7.9}, "A=1", "kept, best challenger A=2 +"),
        ("A=1", {"A=1": 8.0, "A=2": 7.0}, "A=2", "replaces A=1, best challenger A=2 +"),
        ("A=1", {"A=1": 8.0}, "A=1", "kept, best challenger the fixed launch -"),
        ("A=1", {"A=1": 10.1, "A=2": 12.0}, "A=1", "kept, best challenger the fixed launch +"),
        ("A=1", {"A=1": 10.6, "A=2": 10.5}, None, "fixed launch replaces A=1, best challenger the fixed launch +"),
        ("A=9", {"A=1": 10.0, "A=2": 10.0}, None, "fixed launch kept, best challenger A="),
    ],
)
def test_who_is_committed(
    tmp_path: Path, incumbent: str | None, times: dict[str, float], chosen: str | None, note: str
) -> None:
    """The incumbent stays within two percent; beyond, the best of all others takes its place, the fixed launch too."""
    if incumbent is not None:
        commit(tmp_path, incumbent)
    for seed in range(10):
        found = row_of(refreshed(tmp_path, Machine({FIXED: 10.0, **times}, seed=seed)))
        assert found.config == (dict(config_of(chosen)) if chosen else None)
        assert found.note.startswith(note)


def test_what_a_row_says(tmp_path: Path) -> None:
    """The smallest of three speed-ups, the times, and the digests."""
    found = row_of(refreshed(tmp_path, Machine({FIXED: 10.0, "A=1": 8.0}, only={2: {"A=1": 8.2}})))
    assert len(found.speed_up_samples) == 3
    assert found.speed_up == min(found.speed_up_samples) == found.speed_up_samples[2]
    assert 1.21 < found.speed_up < 1.23
    assert found.times_us is not None
    assert (round(found.times_us.fixed), round(found.times_us.committed or 0)) == (10, 8)
    assert (found.key, found.evidence, found.output) == (KEY, "identical_bytes", OUTPUT)
    assert (found.fixed_output, found.fixed_inputs) == (OUTPUT, INPUTS)
    assert (found.method, found.cache) == ("graph", "cold")


@pytest.mark.parametrize("odd", [0, 1, 2])
@pytest.mark.parametrize("theirs", [2.0, 20.0])
def test_what_is_measured_can_be_read_back(tmp_path: Path, odd: int, theirs: float) -> None:
    """However much one process differs from the others: the times are those of the speed-up that is stored."""
    found = row_of(refreshed(tmp_path, Machine({FIXED: 50.0, "A=1": 8.0}, only={odd: {"A=1": theirs}})))
    updated(Store(tmp_path).update(KERNEL, H200, changes(found)))
    times = found.times_us
    assert times is not None
    assert times.fixed / (times.committed or 0) == pytest.approx(found.speed_up, rel=0.01)


def test_times_of_any_process_can_be_read(tmp_path: Path) -> None:
    """Where they are not of the one with the least speed-up, as in older files."""
    made = row(KEY, speed_up=1.25, speed_up_samples=[2.5, 1.25, 1.3], times_us=Times(fixed=25.0, committed=10.0))
    updated(Store(tmp_path).update(KERNEL, H200, changes(made)))


def test_a_row_that_could_not_be_read_back_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other rows of its file are, which it would have the whole update refused of."""
    monkeypatch.setattr(gating_refresh, "medians_us", lambda _rounds: (10.0, 1.0))
    found = refreshed(tmp_path, Machine({FIXED: 10.0, "A=1": 8.0}))
    assert found.row is None
    assert re.fullmatch(r"not written: speed_up 1\.2\d* is not what times_us say, 10", found.reason)
    assert [record.gate for record in found.decided] == ["challenger", "speed_up"]


@pytest.mark.parametrize("reason", ["x" * 5000, "half of \ud800 a pair"])
def test_a_note_can_be_read_back(tmp_path: Path, reason: str) -> None:
    """Whatever a launch says that cannot be timed."""
    found = row_of(refreshed(tmp_path, Machine({FIXED: 10.0, "A=1": 8.0}, refuse=reason)))
    updated(Store(tmp_path).update(KERNEL, H200, changes(found)))


def test_samples_of_a_decision_stay(tmp_path: Path) -> None:
    """Of the challenger against the incumbent and of the speed-up, in all three processes."""
    commit(tmp_path, "A=1")
    found = refreshed(tmp_path, Machine({FIXED: 10.0, "A=1": 8.0, "A=2": 7.0}))
    chosen, speed_up = found.decided
    assert (chosen.gate, chosen.a, chosen.b, chosen.reason) == ("challenger", "A=1", "A=2", row_of(found).note)
    assert (speed_up.gate, speed_up.a, speed_up.b) == ("speed_up", "fixed", "A=2")
    assert [round(1 / ratio, 4) for ratio in speed_up.processes] == pytest.approx(
        row_of(found).speed_up_samples, abs=2e-4
    )
    for record in found.decided:
        assert [len(rounds) for rounds in (record.rounds, *record.confirmations)] == [16, 16, 16]
    kept = refreshed(tmp_path / "null", Machine({FIXED: 10.0, "A=1": 9.95}))
    assert [record.gate for record in kept.decided] == ["challenger"]


def test_an_honest_null_says_so(tmp_path: Path) -> None:
    """Its row has neither speed-up nor output, and the best challenger's figure."""
    found = row_of(refreshed(tmp_path, Machine({FIXED: 10.0, "A=1": 9.95})))
    assert (found.config, found.speed_up, found.speed_up_samples, found.output) == (None, None, [], None)
    assert re.fullmatch(r"fixed launch kept, best challenger A=1 \+0\.\d %", found.note)
    assert found.fixed_output == OUTPUT


@pytest.mark.parametrize("process", [1, 2])
def test_all_three_processes_must_agree(tmp_path: Path, process: int) -> None:
    """A challenger that one fresh process sees within two percent replaces nothing."""
    commit(tmp_path, "A=1")
    machine = Machine({FIXED: 10.0, "A=1": 8.0, "A=2": 7.0}, only={process: {"A=2": 7.9}})
    found = row_of(refreshed(tmp_path, machine))
    assert found.config == {"A": 1}
    assert re.fullmatch(r"kept, best challenger A=2 \+[01]\.\d %", found.note)
    assert machine.started == 3


def test_what_was_refreshed_passes_and_stays(tmp_path: Path) -> None:
    """A second refresh changes nothing, and no gate fails what was just written."""
    times = {FIXED: 10.0, "A=1": 9.0, "A=2": 8.0, "A=3": 8.05, "A=4": 7.95}
    for seed in range(30):
        first = row_of(refreshed(tmp_path, Machine(times, seed=seed)))
        updated(Store(tmp_path).update(KERNEL, H200, changes(first)))
        assert check(bench(tmp_path, Machine(times, seed=seed + 1000))).verdict == "ok"
        assert row_of(refreshed(tmp_path, Machine(times, seed=seed + 2000))).config == first.config


def test_a_refresh_repairs_what_a_gate_failed(tmp_path: Path) -> None:
    """A config slower than the fixed launch, with no better candidate, gives way to the fixed launch."""
    times = {FIXED: 10.0, "A=1": 11.0, "A=2": 12.0}
    commit(tmp_path, "A=1", **stored_times(10.0, 8.0))
    assert check(bench(tmp_path, Machine(times))).verdict == "slower_than_fixed"
    updated(Store(tmp_path).update(KERNEL, H200, changes(row_of(refreshed(tmp_path, Machine(times))))))
    assert check(bench(tmp_path, Machine(times))).verdict == "ok"


def test_only_qualified_candidates_are_measured(tmp_path: Path) -> None:
    """The fastest has other bytes; an incumbent that has them too is none any more."""

    def qualify(_case: Any, info: Any) -> CandidateRecord:
        return qualified(info, **({"outcome": "mismatch", "evidence": None} if info.id == "A=1" else {}))

    commit(tmp_path, "A=1")
    machine = Machine({FIXED: 10.0, "A=1": 5.0, "A=2": 8.0})
    assert row_of(refreshed(tmp_path, machine, qualify=qualify)).config == {"A": 2}


def test_each_program_is_measured_once(tmp_path: Path) -> None:
    """A duplicate of the fixed launch or of another candidate is no challenger, however its times fall."""
    programs: dict[str, dict[str, Any]] = {
        "A=1": {"evidence": "identical_binary"}, "A=2": {}, "A=3": {"same_program_as": "A=2"}
    }  # fmt: skip
    machine = Machine({FIXED: 10.0, "A=1": 1.0, "A=2": 8.0, "A=3": 1.0})
    found = row_of(refreshed(tmp_path, machine, qualify=lambda _case, info: qualified(info, **programs[info.id])))
    assert (found.config, found.evidence) == ({"A": 2}, "identical_bytes")


def test_row_has_the_weakest_evidence_of_its_cases(tmp_path: Path) -> None:
    """What is known of one case is no more than a sample of another."""
    case = CaseInfo(id="other", axes=KEY, key=KEY)
    cases = [CaseInfo(id="timed", axes=KEY, key=KEY), case]
    machine = Machine({FIXED: 10.0, "A=1": 8.0})

    def qualify(of: CaseInfo, info: CandidateInfo) -> CandidateRecord:
        return qualified(info, evidence="identical_binary" if of is case else "identical_bytes")

    assert row_of(refreshed(tmp_path, machine, cases=cases, qualify=qualify)).evidence == "identical_bytes"


@pytest.mark.parametrize(
    ("more", "reason"), [({"noise": 0.1}, "timing is too noisy"), ({"refuse": "host sync"}, "host sync")]
)
def test_what_can_never_be_measured_keeps_the_fixed_launch(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    """With the reason, since the key would be missing for good; a committed config stays as it is."""
    machine = Machine({FIXED: 10.0, "A=1": 5.0}, **more)
    row = row_of(refreshed(tmp_path, machine))
    assert (row.config, row.times_us, row.speed_up) == (None, None, None)
    assert row.note.startswith(f"fixed launch kept, not measured: {reason}")
    commit(tmp_path, "A=1")
    found = refreshed(tmp_path, machine)
    assert (found.row, found.reason.partition(": ")[2].startswith(reason)) == (None, True)


def test_a_disturbed_device_writes_nothing(tmp_path: Path) -> None:
    """Another run may have better luck."""
    machine = Machine({FIXED: 10.0, "A=1": 5.0}, clocks=lambda: [Clocks(sm_mhz=1000), Clocks(sm_mhz=2000)])
    found = refreshed(tmp_path, machine)
    assert (found.row, found.reason.startswith("not written: the clock moved")) == (None, True)


def test_a_device_that_is_disturbed_halfway_writes_nothing(tmp_path: Path) -> None:
    """The control was fine."""
    readings: Iterator[list[Clocks]] = iter([[], []])
    moved = [Clocks(sm_mhz=1000), Clocks(sm_mhz=2000)]
    found = refreshed(tmp_path, Machine({FIXED: 10.0, "A=1": 5.0}, clocks=lambda: next(readings, moved)))
    assert (found.row, found.control is not None and found.control.verdict) == (None, "ok")
    assert "the clock moved" in found.reason


def test_processes_that_time_otherwise_write_nothing(tmp_path: Path) -> None:
    """Speed-ups on two states of the cache are not one."""
    found = refreshed(tmp_path, Machine({FIXED: 10.0, "A=1": 5.0}, warm=frozenset({2})))
    told = "not written: a fresh process times otherwise: graph, warm in place of graph, cold"
    assert (found.row, found.reason) == (None, told)


def test_nothing_is_written_without_a_device_or_a_reference(tmp_path: Path) -> None:
    """A fixed launch that did not qualify is no reference for an honest null either."""
    assert refresh(bench(tmp_path, None), fixed=lambda: PRODUCTION).reason == (
        "no device: kernels are interpreted, and nothing is timed"
    )
    found = refresh(bench(tmp_path, Machine({FIXED: 10.0, "A=1": 5.0})), fixed=lambda: None)
    assert (found.row, found.reason) == (
        None,
        "not written: the fixed launch did not qualify on every case of the key",
    )


# Writing at the end of a run.


def proposal(made: Row, kernel: str = KERNEL, **more: Any) -> Proposal:
    """Return what a worker sends."""
    values = {"device": to_builtins(H200), "space": SPACE, "cases": [id_of(made.key)], **more}
    return Proposal(kernel=kernel, row=to_builtins(made), **values)


def measured(*rows: Row, name: str = KERNEL, failed: tuple[Any, ...] = (), **more: Any) -> KernelRecord:
    """Return a kernel whose rows were measured, and whose cases of the keys in `failed` did not pass."""
    committed = [
        CommittedRecord(
            device="nvidia_h200", key=made.key, verdict="ok", passed=True, proposal=proposal(made, name, **more)
        )
        for made in rows
    ]
    cases = [
        CaseRecord(
            id=id_of(made.key),
            case=made.key,
            key=made.key,
            fixed=FixedRecord(outcome="qualified"),
            passed=made.key not in failed,
        )
        for made in rows
    ]
    return KernelRecord(kernel=name, nodeid=f"qual_{name}.py::{name}", cases=cases, committed=committed)


def written(folder: Path, kernel: str = KERNEL, device: Any = H200) -> CommittedFile:
    """Return the file that must be there."""
    found = Store(folder).read(kernel, device)
    assert isinstance(found, CommittedFile), found
    return found


def test_proposals_are_merged_by_key(tmp_path: Path) -> None:
    """A row that was not measured keeps its config, space and versions; the file gets those of today."""
    store = Store(tmp_path)
    updated(store.update(KERNEL, H200, changes(row({"cols": 1}), row({"cols": 2}), space=OTHER_SPACE)))
    new = [row({"cols": 2}, {"num_warps": 2}), null_row({"cols": 3})]
    (report,) = write_proposals(store, [measured(*new)], ENVIRONMENT, complete=False)
    assert isinstance(report, UpdateReport)
    assert [len(group) for group in (report.kept, report.changed, report.added, report.dropped)] == [1, 1, 1, 0]
    file = written(tmp_path)
    assert [one.key["cols"] for one in file.rows] == [1, 2, 3]
    assert [file.space_of(one) for one in file.rows] == [OTHER_SPACE, SPACE, SPACE]
    assert [file.toolchain_of(one).triton for one in file.rows] == ["3.6.0", "3.7.1", "3.7.1"]
    told = refresh_summary([report])
    assert "1 kept, 1 changed, 1 added, 0 dropped" in told
    assert "changed 2: num_warps=2 (was num_warps=8), 1.250 times the fixed launch's speed" in told.replace(
        "cols2", "2"
    )
    assert "fixed launch; fixed launch kept, best challenger +0.4 %" in told


def test_nothing_comes_from_a_failed_case_or_row(tmp_path: Path) -> None:
    """Other keys of the same kernel are written."""
    one, two, three = (row({"cols": cols}) for cols in (1, 2, 3))
    record = measured(one, two, three, failed=({"cols": 1},))
    rows = [*record.committed[:2], structs.replace(record.committed[2], passed=False)]
    write_proposals(Store(tmp_path), [structs.replace(record, committed=rows)], ENVIRONMENT, complete=False)
    assert [made.key for made in written(tmp_path).rows] == [{"cols": 2}]


def test_nothing_comes_from_a_case_that_did_not_run(tmp_path: Path) -> None:
    """A key may have several cases; each of them must have run."""
    record = measured(row({"cols": 1}), row({"cols": 2}))
    write_proposals(Store(tmp_path), [structs.replace(record, cases=record.cases[1:])], ENVIRONMENT, complete=False)
    assert [made.key for made in written(tmp_path).rows] == [{"cols": 2}]


def test_a_kernel_of_which_nothing_passed_writes_no_file(tmp_path: Path) -> None:
    """Not even an empty one."""
    assert write_proposals(Store(tmp_path), [measured(row({}), failed=({},))], ENVIRONMENT, complete=False) == []
    assert list(tmp_path.iterdir()) == []


def test_two_kernels_and_two_devices_have_a_file_each(tmp_path: Path) -> None:
    """Each with its own rows."""
    other = structs.replace(H200, name="NVIDIA H200 NVL")
    records = [
        measured(row({"cols": 1})),
        measured(row({"cols": 2}), name="softmax"),
        measured(row({"cols": 3}), device=to_builtins(other)),
    ]
    reports = write_proposals(Store(tmp_path), records, ENVIRONMENT, complete=False)
    assert len(reports) == 3
    keys = [
        [made.key["cols"] for made in written(tmp_path, *where).rows]
        for where in ((KERNEL, H200), ("softmax", H200), (KERNEL, other))
    ]
    assert keys == [[1], [2], [3]]


def test_only_a_complete_update_drops_what_nothing_reaches(tmp_path: Path) -> None:
    """From the files of specs that were measured in full on this device; what is only written otherwise stays."""
    other, store = structs.replace(H200, name="NVIDIA H200 NVL"), Store(tmp_path)
    old = changes(row({"cols": 1}), row({"cols": 7}), row({"cols": "1"}))
    for kernel in (KERNEL, "softmax", "gone"):
        for device in (H200, other):
            updated(store.update(kernel, device, old))
    records = [
        measured(row({"cols": 1}), row({"cols": 2})),
        measured(row({"cols": 1}), row({"cols": 2}), name="softmax", failed=({"cols": 2},)),
    ]
    write_proposals(store, records, ENVIRONMENT, complete=False)
    assert [made.key["cols"] for made in written(tmp_path).rows] == [1, 2, 7, "1"]
    reports = [updated(report) for report in write_proposals(store, records, ENVIRONMENT, complete=True)]
    assert [[change.key for change in report.dropped] for report in reports] == [[{"cols": 7}], []]
    assert [made.key["cols"] for made in written(tmp_path).rows] == [1, 2, "1"]
    assert "1 dropped" in refresh_summary(reports)
    assert "dropped cols7: num_warps=8, 1.250 times the fixed launch's speed" in refresh_summary(reports)
    for kernel, device in (("softmax", H200), ("gone", H200), (KERNEL, other), ("softmax", other)):
        assert [made.key["cols"] for made in written(tmp_path, kernel, device).rows] == [1, 7, "1"]


def test_a_refused_file_is_not_overwritten(tmp_path: Path) -> None:
    """The others are written, and the refusal is told."""
    path = Store(tmp_path).path_for(KERNEL, H200)
    path.parent.mkdir()
    path.write_text("<<<<<<< ours\n")
    reports = write_proposals(
        Store(tmp_path), [measured(row({})), measured(row({}), name="softmax")], ENVIRONMENT, complete=False
    )
    assert [type(report) for report in reports] == [Refusal, UpdateReport]
    assert path.read_text() == "<<<<<<< ours\n"
    assert "not written: " in refresh_summary(reports)
    assert "merge-conflict marker" in refresh_summary(reports)


# A run on a device that times nothing.


def judged(verdict: Any, *gates: str, passed: bool = True) -> KernelRecord:
    """Return a kernel with one row."""
    records = [GateRecord(gate="control", a="fixed", b="fixed", margin_pct=2, verdict=gate) for gate in gates]  # type: ignore[arg-type]
    made = CommittedRecord(device="d", key={}, verdict=verdict, gates=records, passed=passed, reasons=["because"])
    return KernelRecord(kernel=KERNEL, nodeid=KERNEL, committed=[made])


def test_timed_nothing_is_a_problem_on_a_device_only() -> None:
    """One row that was timed is enough, failures tell themselves, and where no rows are there is nothing to time."""
    quiet, timed = judged("unmeasurable", "unmeasurable"), judged("ok", "ok")
    (told,) = untimed([quiet, judged("not_timed")], ENVIRONMENT)
    assert told == "no committed config was timed on NVIDIA H200: 2 rows, the first one: because"
    assert untimed([quiet, timed], ENVIRONMENT) == []
    assert untimed([quiet, judged("stale", passed=False)], ENVIRONMENT) == []
    assert untimed([KernelRecord(kernel="a", nodeid="a")], ENVIRONMENT) == []
    interpreter = structs.replace(ENVIRONMENT, device=DeviceDescriptor(kind="interpreter", name="", architecture=""))
    assert untimed([judged("not_timed")], interpreter) == []
