"""What differs from the fixed launch is told apart: rounding that the spec allows, and what no tolerance may hide."""

import shutil
from pathlib import Path

import pytest
from acceptance import Ended, assert_agree, run

from pytest_kernelqual.model.record import CandidateRecord

REFERENCES = Path(__file__).parent / "references"

WITHIN = "within_tolerance"

EXPECTED = {
    "relative[n100-float32]": {
        "SHIFT=0": "qualified",
        "SHIFT=23": WITHIN,
        "SHIFT=7": "mismatch structural",
        "SHIFT=23,FAULT=not_a_number": "mismatch structural",
        "SHIFT=23,FAULT=infinity": "mismatch structural",
        "SHIFT=23,FAULT=minus_zero": "mismatch rounding",
        "SHIFT=23,FAULT=unwritten": "incomplete_write",
        "SHIFT=23,FAULT=long": "out_of_bounds_write",
    },
    "tight[n100-float32]": {
        "SHIFT=23": WITHIN,
        "SHIFT=22": WITHIN,
        "SHIFT=20": "mismatch rounding",
    },
    "wide[n100-float32]": {"SHIFT=2": WITHIN, "FAULT=zeros": "mismatch structural"},
    "integers[n100-int32]": {"FAULT=none": "qualified", "FAULT=off_by_one": "mismatch structural"},
    "forms[n40]": {
        "FAULT=none": "qualified",
        "FAULT=rounded": WITHIN,
        "FAULT=dtype": "mismatch shape",
        "FAULT=shape": "mismatch shape",
        "FAULT=strides": "mismatch shape",
        "FAULT=one_more": "mismatch shape",
        "FAULT=nan_payload": "mismatch nan_payload",
        "FAULT=restless": "nondeterministic",
    },
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Run the specs once."""
    folder = tmp_path_factory.mktemp("references")
    shutil.copytree(REFERENCES, folder / "kernels")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return run(folder, "--kernelqual-device=interpreter", "-p", "no:cacheprovider", COLUMNS="200")


def _seen(record: CandidateRecord) -> str:
    found = record.detail.get("mismatches") if record.outcome == "mismatch" else None
    return f"mismatch {found[0]['diagnosis']}" if found else record.outcome


def _item(nodeid: str) -> str:
    return nodeid.rpartition(".py::")[2].replace("::test_candidates", "")


def test_each_candidate_gets_its_outcome(ended: Ended) -> None:
    """All specs are known, and each candidate is told apart."""
    seen = {
        _item(nodeid): {record.id: _seen(record) for record in case.candidates} for nodeid, case in ended.cases.items()
    }
    assert seen == EXPECTED


def test_a_tolerance_never_counts_as_equal_bytes(ended: Ended) -> None:
    """Evidence, counts, table, section and JUnit have a name of their own for it."""
    close = [record for case in ended.cases.values() for record in case.candidates if record.outcome == WITHIN]
    assert len(close) == 5
    for record in close:
        assert record.evidence == WITHIN
        assert {found["beyond_tolerance"] for found in record.detail["mismatches"]} == {0}
        assert "none beyond the tolerance" in record.reason
    document = ended.document
    assert document.controls.outcomes[WITHIN] == len(close)
    assert document.controls.outcomes["qualified"] == 3
    header = next(line for line in ended.text.splitlines() if line.startswith("kernel "))
    assert header.split()[3:5] == ["qualified", WITHIN]
    assert "other bytes, within the spec's tolerance (5)" in ended.text
    told = {one.name: one.value for one in next(iter(ended.junit)).properties()}
    assert sum(value == f"{WITHIN};{WITHIN};" for value in told.values()) == len(close)
    assert_agree(ended)


def test_what_is_beyond_is_counted(ended: Ended) -> None:
    """A mismatch says how many elements the tolerance does not cover, of those that differ."""
    case = next(case for nodeid, case in ended.cases.items() if "relative" in nodeid)
    by_id = {record.id: record for record in case.candidates}
    nan = by_id["SHIFT=23,FAULT=not_a_number"]
    (found,) = nan.detail["mismatches"]
    assert (found["differing"], found["beyond_tolerance"]) == (85, 1)
    assert "1 beyond the tolerance" in nan.reason
    assert "1 beyond the tolerance" in ended.text
    assert by_id["SHIFT=23"].detail["input_sets_differing"] == ["normal/0", "normal/1"]
