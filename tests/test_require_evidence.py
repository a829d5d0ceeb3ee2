"""Evidence that a project requires: what lacks it fails, says what is missing, and is not committed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from acceptance import Ended, assert_agree, candidate, run, spec, stub, suite
from committed_runs import GPU as STUB_GPU
from committed_runs import TIMES, agree, chosen, commit, model, project, rows_of, verdicts_of
from hypothesis import given
from hypothesis import strategies as st

from pytest_kernelqual.committed.schema import CommittedFile
from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.judge.evidence import held_to, strength
from pytest_kernelqual.judge.verdict import candidate_fails
from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES, PASSING, REQUIRABLE, Evidence, Outcome
from pytest_kernelqual.model.record import CandidateRecord

REFERENCES = Path(__file__).parent / "sensitivity" / "references"
GPU = {"STUB_DEVICES": "GPU-7", "CUDA_VISIBLE_DEVICES": ""}
DEMAND = "kernelqual_require_evidence = identical_order"
TOLD = "identical_order is required, and {} is all that is shown"

grades = st.sampled_from(EVIDENCE)
required = st.sampled_from(REQUIRABLE)


# Laws.


def passing(evidence: Evidence, **more: Any) -> CandidateRecord:
    """Return a record of a candidate that passes."""
    outcome = "within_tolerance" if evidence == "within_tolerance" else "qualified"
    return CandidateRecord(id="A=1", config={"A": 1}, outcome=outcome, evidence=evidence, **more)


@given(grades, required)
def test_what_is_weaker_lacks_what_is_required(found: Evidence, wanted: Evidence) -> None:
    """And fails for it, unless the interpreter has no more to give."""
    record = held_to(passing(found), wanted)
    weaker = strength(found) < strength(wanted)
    assert record.lacks == (wanted if weaker else None)
    assert candidate_fails(record, screen=None) is (weaker and found != "interpreted")
    assert (f"{wanted} is required" in record.reason) is candidate_fails(record, screen=None)
    assert not candidate_fails(record, screen="a search")
    assert held_to(record, None) == record


@given(grades, required, required)
def test_a_stronger_demand_passes_no_more(found: Evidence, one: Evidence, other: Evidence) -> None:
    """Whatever is shown."""
    weak, strong = sorted((one, other), key=strength)
    if candidate_fails(held_to(passing(found), weak), screen=None):
        assert candidate_fails(held_to(passing(found), strong), screen=None)


def test_the_reason_names_what_is_missing() -> None:
    """What differs in the arithmetic order, where that is known."""
    differs = "tt.reduce axis 1: warps along the axis 4 -> 8"
    record = held_to(passing("identical_bytes", fragile=[differs, "more"], reason="why"), "identical_order")
    assert record.reason == f"{TOLD.format('identical_bytes')}: {differs}; why"


@pytest.mark.parametrize("outcome", [name for name in OUTCOMES if name not in PASSING])
def test_what_does_not_pass_is_left_as_it_is(outcome: Outcome) -> None:
    """Its outcome says more."""
    record = CandidateRecord(id="A=1", config={}, outcome=outcome, reason="why")
    assert held_to(record, "identical_binary") == record


def test_the_fixed_launches_own_config_lacks_nothing() -> None:
    """It is production's launch, whatever was made out of its code."""
    record = passing("identical_bytes", same_as_fixed=True)
    assert held_to(record, "identical_binary") == record


# Runs.


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Run specs of every kind on a device of the stub, with a demand of the project."""
    everything = {name: name for name in ("identical_binary", "identical_order", "identical_bytes", "within_tolerance")}
    specs = {
        "held": spec("a", **everything, other="mismatch"),
        "proved": spec("a", x="identical_order", y="identical_binary"),
        "lenient": {**spec("a", **everything), "require_evidence": "within_tolerance"},
        "strict": {**spec("a", x="identical_order"), "require_evidence": "identical_binary"},
        "search": {**spec("a", **everything), "screen": "a search"},
    }
    folder = suite(
        tmp_path_factory.mktemp("required") / "s", specs, ini="kernelqual_require_evidence = identical_order\n"
    )
    return stub(folder, **GPU)


def test_weak_evidence_fails_its_case(ended: Ended) -> None:
    """With one line that names both grades; a spec's own demand counts more than the project's."""
    passed = {nodeid.split("::")[1]: case.passed for nodeid, case in ended.cases.items()}
    assert passed == {"held": False, "proved": True, "lenient": True, "strict": False, "search": True}
    case = ended.cases["qual_stub.py::held::test_candidates[a]"]
    assert ended.outcomes(case.nodeid)["identical_bytes"] == "qualified"
    for weak in ("identical_bytes", "within_tolerance"):
        record = candidate(case, weak)
        assert record.lacks == "identical_order"
        assert record.reason.startswith(TOLD.format(weak))
        assert f"{weak}: {record.outcome}: {record.reason}" in case.failures
        assert TOLD.format(weak) in ended.text
    assert [record.id for record in case.candidates if record.lacks] == ["identical_bytes", "within_tolerance"]
    assert len(case.failures) == 3
    strict = ended.cases["qual_stub.py::strict::test_candidates[a]"].candidates[0]
    assert strict.reason.startswith("identical_binary is required, and identical_order is all that is shown")
    assert_agree(ended)


def test_a_search_records_what_is_weak(ended: Ended) -> None:
    """It does not fail for it, and the summary lists it."""
    case = ended.cases["qual_stub.py::search::test_candidates[a]"]
    assert [record.lacks for record in case.candidates] == [None, None, "identical_order", "identical_order"]
    recorded = ended.text.partition("recorded, not failing")[2]
    assert "search[a] identical_bytes: qualified" in recorded
    assert "lacks" not in ended.text


def test_the_option_counts_more_than_the_ini_value(tmp_path: Path) -> None:
    """As ever."""
    folder = suite(
        tmp_path / "s", {"a": spec("a", x="identical_bytes")}, ini="kernelqual_require_evidence = identical_order"
    )
    assert stub(folder, **GPU).code == 1
    assert stub(folder, "--kernelqual-require-evidence=identical_bytes", **GPU).code == 0


def test_the_interpreter_cannot_show_what_is_required_and_says_so(tmp_path: Path) -> None:
    """It fails nobody for that; bytes that differ already there are less than any equality, and fail."""
    shutil.copytree(REFERENCES, tmp_path / "kernels")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{DEMAND}\n")
    interpreted = ("--kernelqual-device=interpreter", "-p", "no:cacheprovider")
    ended = run(tmp_path, *interpreted, "-k", "good_fixed or spoiled")
    told = "(identical_order is required, which the interpreter cannot show) report:"
    assert told in " ".join(ended.text.partition("\nevidence: ")[2].split())
    assert max(map(len, ended.text.partition("\nevidence: ")[2].splitlines()[:2])) <= 80
    good = ended.cases["kernels/qual_oracles.py::good_fixed::test_candidates[n100-float32]"]
    assert [(record.id, record.outcome, record.lacks) for record in good.candidates] == [
        ("SHIFT=0", "qualified", "identical_order"),
        ("SHIFT=23", "within_tolerance", "identical_order"),
    ]
    assert good.failures == [f"SHIFT=23: within_tolerance: {good.candidates[1].reason}"]
    spoiled = ended.cases["kernels/qual_oracles.py::spoiled_inputs::test_candidates[n100-float32]"]
    assert (spoiled.passed, spoiled.candidates[0].reason) == (True, "")
    assert_agree(ended)


def test_what_lacks_evidence_is_not_committed(tmp_path: Path) -> None:
    """A row of such a config is not qualified, and an update takes the fastest of those that lack nothing."""
    weak = {**spec("a", x="identical_bytes", y="identical_order"), "times": TIMES, "screen": "a search"}
    folder = project(tmp_path, {"weak": weak, "fresh": weak})
    commit(folder, "weak", chosen("a", "x"))
    demand = "--kernelqual-require-evidence=identical_order"
    ended = model(folder, demand, "-k", "weak")
    row = "weak::test_committed[a-STUB_GPU]"
    assert verdicts_of(ended) == {row: "not_qualified"}
    assert TOLD.format("identical_bytes") in rows_of(ended)[row].reasons[0]
    agree(ended)
    model(folder, demand, "--kernelqual-update", "-k", "fresh")
    written = Store(folder / "committed_configs").read("fresh", STUB_GPU)
    assert isinstance(written, CommittedFile)
    assert [(found.config, found.evidence) for found in written.rows] == [({"C": "y"}, "identical_order")]
