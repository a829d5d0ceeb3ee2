"""Production's own bytes against those of the day on which a row was committed."""

from pathlib import Path

import pytest
from committed_runs import GPU, agree, declared, model, project, rows_of, verdicts_of
from committed_samples import NEWER, OUTPUT, TOOLCHAIN, null_row
from committed_samples import changes as changes_of
from fake_bench import bench, commit
from fake_timing import FIXED, Machine
from msgspec import structs
from stub_timing import digest

from pytest_kernelqual.committed.schema import CommittedFile, Toolchain
from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.gating import arms as gating_arms
from pytest_kernelqual.gating.row import check
from pytest_kernelqual.model.record import CommittedRecord, FixedRecord

INPUTS = f"sha256:{'b' * 64}"
OTHER_OUTPUT = f"sha256:{'c' * 64}"
ITEM = "one::test_committed[a-STUB_GPU]"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no clock to settle."""
    monkeypatch.setattr(gating_arms, "_PAUSES_S", (0.0,) * 4)


def checked(
    folder: Path,
    output: str | None,
    inputs: str | None = INPUTS,
    *,
    stored_inputs: str | None = INPUTS,
    toolchain: Toolchain | None = NEWER,
    fails: bool = False,
) -> CommittedRecord:
    """Check a row whose fixed launch gave OUTPUT when it was committed."""
    commit(folder, "A=1", fixed_inputs=stored_inputs)
    fixed = FixedRecord(outcome="qualified" if output else "fault", output=output, inputs=inputs)
    machine = Machine({FIXED: 10.0, "A=1": 8.0})
    return check(bench(folder, machine, fixed=lambda _: fixed, toolchain=toolchain, drift_fails=fails))


def test_the_same_bytes_need_no_word(tmp_path: Path) -> None:
    """Whatever became of the toolchain."""
    record = checked(tmp_path, OUTPUT)
    assert (record.verdict, record.production, record.reasons) == ("ok", "same", [])


def test_changed_bytes_warn_and_name_what_changed(tmp_path: Path) -> None:
    """The committed config still gives production's bytes, so that it is timed and may be fine."""
    record = checked(tmp_path, OTHER_OUTPUT)
    assert (record.verdict, record.passed, record.production) == ("ok", True, "changed")
    assert record.reasons == ["production's bytes changed since triton 3.6.0 (triton 3.6.0 -> 3.7.1)"]
    assert record.gates


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (TOOLCHAIN, "changed and the toolchain did not: what does the fixed launch read besides its inputs?"),
        (structs.replace(TOOLCHAIN, driver="580.2"), "changed since driver 570.1 (driver 570.1 -> 580.2)"),
        (
            structs.replace(NEWER, torch="2.13.0", runtime=""),
            "since triton 3.6.0 (triton 3.6.0 -> 3.7.1, torch 2.10.0 -> 2.13.0, runtime 12.8 -> none)",
        ),
    ],
    ids=["nothing", "the driver", "more"],
)
def test_every_part_of_the_toolchain_is_named(tmp_path: Path, now: Toolchain, told: str) -> None:
    """The likeliest one first."""
    assert told in checked(tmp_path, OTHER_OUTPUT, toolchain=now).reasons[0]


def test_changed_bytes_fail_where_the_project_says_so(tmp_path: Path) -> None:
    """Then nothing needs to be timed."""
    record = checked(tmp_path, OTHER_OUTPUT, fails=True)
    assert (record.verdict, record.passed, record.gates) == ("drifted", False, [])
    assert "since triton 3.6.0" in record.reasons[0]


def test_other_inputs_are_not_comparable(tmp_path: Path) -> None:
    """That is said, and fails nothing."""
    record = checked(tmp_path, OTHER_OUTPUT, inputs=f"sha256:{'d' * 64}", fails=True)
    assert (record.verdict, record.production) == ("ok", "not_comparable")
    assert "the inputs are others than when the row was committed" in record.reasons[0]


@pytest.mark.parametrize(
    ("output", "stored_inputs", "toolchain"),
    [(None, INPUTS, NEWER), (OTHER_OUTPUT, None, NEWER), (OTHER_OUTPUT, INPUTS, None)],
    ids=["no output today", "inputs were not stored", "interpreted"],
)
def test_what_cannot_be_told_is_unknown(
    tmp_path: Path, output: str | None, stored_inputs: str | None, toolchain: Toolchain | None
) -> None:
    """Never the same."""
    record = checked(tmp_path, output, stored_inputs=stored_inputs, toolchain=toolchain, fails=True)
    assert (record.verdict, record.production, record.reasons) == ("ok", "unknown", [])


def test_a_row_that_keeps_the_fixed_launch_is_held_against_it_too(tmp_path: Path) -> None:
    """It needs no candidate to be run."""
    row = structs.replace(null_row({"cols": 4096}), fixed_output=OUTPUT, fixed_inputs=INPUTS)
    kept = bench(
        tmp_path,
        None,
        fixed=lambda _: FixedRecord(outcome="qualified", output=OTHER_OUTPUT, inputs=INPUTS),
        toolchain=NEWER,
    )
    kept.store.update(kept.kernel, kept.device, changes_of(row))
    assert check(kept).production == "changed"


def test_a_run_tells_drift_everywhere(tmp_path: Path) -> None:
    """An update stores what production gives; after another compiler the rows, the summary and the JSON tell it."""
    folder = project(tmp_path, {"one": declared("a", "b")})
    assert verdicts_of(model(folder, "--kernelqual-update"))[ITEM] == "ok"
    store = Store(folder / "committed_configs")
    path = store.path_for("one", GPU)
    file = store.read("one", GPU)
    assert isinstance(file, CommittedFile)
    assert all(row.fixed_output == digest(row.key["n"]) and row.fixed_inputs for row in file.rows)
    assert {one.production for one in rows_of(model(folder)).values()} == {"same"}

    path.write_text(path.read_text().replace(digest("a"), OTHER_OUTPUT).replace('"triton": "3"', '"triton": "2.9"'))
    changed = "production's bytes changed since triton 2.9 (triton 2.9 -> 3)"
    for arguments in ((), ("-k", "test_committed")):  # with and without the candidates' own item
        ended = model(folder, *arguments)
        record = rows_of(ended)[ITEM]
        assert (record.verdict, record.production, record.reasons) == ("ok", "changed", [changed])
        assert "committed configs: 2 rows: 2 ok; production's bytes changed in 1\n" in ended.text
        assert f"  one a on stub_gpu: C=x: ok: {changed}\n" in ended.text
        agree(ended)

    failing = model(folder, "--kernelqual-drift=fail")
    assert verdicts_of(failing) == {ITEM: "drifted", "one::test_committed[b-STUB_GPU]": "ok"}
    assert f"a on stub_gpu: C=x: drifted\n  {changed}" in failing.text
    agree(failing)

    seeded = rows_of(model(folder, "--kernelqual-seed=1", "--kernelqual-drift=fail"))
    assert {name: one.production for name, one in seeded.items() if "test_committed" in name} == {
        ITEM: "not_comparable",
        "one::test_committed[b-STUB_GPU]": "same",
    }
    updated = rows_of(model(folder, "--kernelqual-update"))[ITEM]
    assert (updated.verdict, updated.production) == ("ok", "changed")
    assert updated.reasons[0] == changed
    assert {one.production for one in rows_of(model(folder)).values()} == {"same"}


def test_the_option_takes_two_words(tmp_path: Path) -> None:
    """From the ini file as well."""
    folder = project(tmp_path, {"one": declared("a")})
    ended = model(folder, "--kernelqual-drift=no")
    assert ended.code == pytest.ExitCode.USAGE_ERROR
    assert "--kernelqual-drift='no': must be warn or fail" in ended.text
