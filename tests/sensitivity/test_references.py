"""What differs from the fixed launch is told apart: rounding that the spec allows, and what no tolerance may hide."""

import shutil
from pathlib import Path

import pytest
from acceptance import Ended, assert_agree, run

from pytest_kernelqual.model.record import CandidateRecord

REFERENCES = Path(__file__).parent / "references"

WITHIN = "within_tolerance"

WRONG_ANSWERS = {
    "shape": "the oracle's reference of return has shape (3,), the output (10,); return the shape of the output",
    "dtype": "the oracle's reference of return is int64 and the output float32; return a floating dtype",
    "text": "the oracle's reference of return is a str; return a tensor",
    "two": "the oracle returned 2 references, and the launch gives 1 outputs (return); return one for each",
    "nothing": "the oracle returned 0 references, and the launch gives 1 outputs (return)",
    "not_judged": "the oracle judges no output",
    "misspelled": "the oracle raised AttributeError: no input is named 'weight'; inputs: x",
    "misspelled_item": "the oracle raised KeyError: \"no input is named 'X'; inputs: x\"",
    "raises": "the oracle raised BrokenError: the library is not",
}

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
    "good_fixed[n100-float32]": {"SHIFT=0": "qualified", "SHIFT=23": WITHIN},
    "wrong_fixed[n100-float32]": {
        "SHIFT=0": "not_run",
        "SHIFT=23": "not_run",
        "SHIFT=7": "not_run",
        "FAULT=unwritten": "incomplete_write",
    },
    "both_wrong[n100-float32]": {"SHIFT=0": "not_run", "SHIFT=10": "not_run"},
    "wrong_oracle[n100-float32]": {"SHIFT=0": "not_run", "SHIFT=23": "not_run"},
    "lonely_oracle[n100-float32]": {"SHIFT=0": "not_run"},
    "no_oracle[n100-float32]": {
        "BLOCK=64,SHIFT=0": "mismatch structural",
        "FAULT=none,SHIFT=0": "mismatch structural",
    },
    "rounded[n10-float16]": {"SHIFT=0": "qualified"},
    "rounded[n10-int32]": {"SHIFT=0": "qualified"},
    "integer_off_by_one[n10]": {"SHIFT=0": "not_run"},
    "spoiled_inputs[n100-float32]": {"SHIFT=0": "qualified"},
    **{f"wrong_answers[{answer}]": {"SHIFT=0": "not_run"} for answer in WRONG_ANSWERS},
    "by_name[n8]": {"FAULT=none": "qualified", "FAULT=gradient": "mismatch structural"},
    **{f"special[{value}]": {"A=1": "qualified"} for value in ("nan", "infinity", "minus_zero", "large")},
    "asked_once[n8]": {"A=1": "qualified", "A=2": "fault", "A=3": "qualified"},
    "wrong_and_dying[n8]": {"FAULT=abort": "fault", "FAULT=none": "not_run"},
}

# What the fixed launch gets where it is not `qualified`, and what its reason says.
FIXED = {
    "wrong_fixed[n100-float32]": (
        "baseline_suspect",
        "all of these agree with the oracle; differs from the oracle: return: 100 of 100 elements beyond rtol=1e-06",
    ),
    "both_wrong[n100-float32]": ("mismatch", "2 of 2 candidates have other bytes than it, 1 of which agree with"),
    "wrong_oracle[n100-float32]": ("mismatch", "1 of 2 candidates have other bytes than it, 0 of which agree with"),
    "lonely_oracle[n100-float32]": ("mismatch", "no candidate has other bytes than it: the oracle is suspect, or"),
    "integer_off_by_one[n10]": (
        "mismatch",
        "1 of 10 elements unlike the rounded reference, worst at (4,): oracle 9",
    ),
    "wrong_and_dying[n8]": ("baseline_suspect", "1 of 1 candidates have other bytes than it"),
    **{f"wrong_answers[{answer}]": ("not_run", told) for answer, told in WRONG_ANSWERS.items()},
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
    assert len(close) == 6
    for record in close:
        assert record.evidence == WITHIN
        assert {found["beyond_tolerance"] for found in record.detail["mismatches"]} == {0}
        assert "none beyond the tolerance" in record.reason
    document = ended.document
    assert document.controls.outcomes[WITHIN] == len(close)
    equal = sum(list(found.values()).count("qualified") for found in EXPECTED.values())
    assert document.controls.outcomes["qualified"] == equal
    header = next(line for line in ended.text.splitlines() if line.startswith("kernel "))
    assert header.split()[3:5] == ["qualified", WITHIN]
    assert "other bytes, within the spec's tolerance (6)" in ended.text
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


def test_the_oracle_judges_the_fixed_launch(ended: Ended) -> None:
    """It fails a case whose production is wrong, or that it cannot judge, with one line; others are as ever."""
    seen = {_item(nodeid): case for nodeid, case in ended.cases.items()}
    assert {name for name, case in seen.items() if case.fixed.outcome != "qualified"} == FIXED.keys()
    for name, (outcome, told) in FIXED.items():
        fixed = seen[name].fixed
        assert fixed.outcome == outcome
        assert told in fixed.reason
        assert "\n" not in fixed.reason
        assert seen[name].failures == [f"fixed launch: {outcome}: {fixed.reason}"]
    properties = {one.name: one.value for one in next(iter(ended.junit)).properties()}
    told = {_item(name): value for name, value in properties.items() if name.startswith("kernelqual.fixed ")}
    assert told == {name: FIXED.get(name, ("qualified",))[0] for name in seen}
    assert "wrong_fixed[n100-float32]: baseline_suspect" in ended.text


def test_how_far_the_fixed_launch_is_off_is_recorded(ended: Ended) -> None:
    """Of each output that the oracle judges, the element that is furthest off; also where that is near enough."""
    seen = {_item(nodeid): case.fixed for nodeid, case in ended.cases.items()}
    (wrong,) = seen["wrong_fixed[n100-float32]"].oracle
    assert (wrong.output, wrong.elements, wrong.beyond, wrong.worst_index) == ("return", 100, 100, (40,))
    assert wrong.max_relative is not None
    assert abs(wrong.max_relative - 2**-7) < 1e-6
    (off,) = seen["integer_off_by_one[n10]"].oracle
    assert (off.beyond, off.worst_index, off.max_absolute, off.max_ulp) == (1, (4,), 1.0, None)
    assert [found.output for found in seen["by_name[n8]"].oracle] == ["return[1]", "input x.grad"]
    for name, fixed in seen.items():
        if fixed.outcome == "qualified" and fixed.oracle:
            assert {found.beyond for found in fixed.oracle} == {0}, name
    assert seen["no_oracle[n100-float32]"].oracle == []


def test_candidates_of_a_rejected_fixed_launch_say_where_they_stand(ended: Ended) -> None:
    """None of them is qualified by a reference that is wrong."""
    case = next(case for nodeid, case in ended.cases.items() if "wrong_fixed" in nodeid)
    told = {record.id: record.reason.partition("; this candidate has ")[2] for record in case.candidates}
    assert told["SHIFT=0"] == told["SHIFT=23"] == "other bytes, which agree with the oracle"
    assert told["SHIFT=7"] == "its bytes"


def test_without_an_oracle_agreement_is_a_hint(ended: Ended) -> None:
    """Candidates that all agree with each other, and not with the fixed launch, make it suspect."""
    case = next(case for nodeid, case in ended.cases.items() if "no_oracle" in nodeid)
    assert case.fixed.outcome == "qualified"
    assert case.failures[-1].startswith("all 2 candidates agree with each other byte for byte, and none with the fixed")
    assert {record.detail["output"] for record in case.candidates} == {case.candidates[0].detail["output"]}
    hints = [nodeid for nodeid, case in ended.cases.items() if "agree with each other" in " ".join(case.failures)]
    assert len(hints) == 1


def test_the_oracle_is_asked_once_for_each_input_set(ended: Ended) -> None:
    """Whatever candidates do to the device process."""
    asked = (ended.folder / "asked.txt").read_text().splitlines()
    assert len(asked) == len(set(asked)) == 2
