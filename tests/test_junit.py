"""pytest's own `--junitxml` under `--kernelqual`: valid, complete, and readable by other tools."""

from pathlib import Path

import pytest
from acceptance import JENKINS, Ended, assert_agree, cases_of, failed_in_junit, junit_name, spec, stub, suite
from junitparser import JUnitXml, Properties, TestCase, TestSuite

ONE_A = "qual_stub.py::one::test_candidates[a]"
TWO_A = "qual_stub.py::two::test_candidates[a]"

# Escape sequence, markup, a character beyond XML, one beyond the basic plane, and a line break.
HOSTILE = "\x1b[31m<&\"' \ufffe \U0001f642 \n\x00x"
SPECS = {
    "one": spec("a", "b", **{"ok": "qualified", "bad": "mismatch", HOSTILE: "print:\\x1b[2J\\x00 abort"}),
    "two": spec(),
}
BROKEN = {"three": {"cases": [], "candidates": {}, "problem": "wrong \x1b[31m<declaration>\x00"}}
TEARDOWN_FAILS = (
    "import pytest\n@pytest.fixture(autouse=True)\ndef broken():\n    yield\n    raise OSError('planted')\n"
)
XUNIT1 = ("-o", "junit_family=xunit1")


def properties(of: TestSuite | TestCase) -> dict[str, str]:
    """Return properties by name; no name occurs twice."""
    held = of.child(Properties)
    found = [(one.name, one.value) for one in held or ()]
    assert len(dict(found)) == len(found)
    return dict(found)


def case_of(xml: JUnitXml, nodeid: str) -> TestCase:
    """Return the only test case of a node id."""
    (found,) = [case for case in cases_of(xml) if f"{case.classname}.{case.name}" == junit_name(nodeid)]
    return found


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return a run with every kind of hostile text."""
    folder = suite(tmp_path_factory.mktemp("junit"), {**SPECS, **BROKEN})
    return stub(folder)


def test_default_family_is_valid_for_jenkins_and_agrees(ended: Ended) -> None:
    """xunit2: no property in a test case, whatever names hold; `Ended.junit` validates the file."""
    xml = ended.junit
    assert_agree(ended)
    assert all(not properties(case) for case in cases_of(xml))
    assert failed_in_junit(xml) == {
        "qual_stub.one.test_candidates[a]",
        "qual_stub.one.test_candidates[b]",
        "qual_stub.three.test_declaration",
    }


def test_suite_tells_each_candidate_and_the_digest(ended: Ended) -> None:
    """One property a candidate and case, with outcome and evidence; digest and environment of the JSON."""
    (one,) = list(ended.junit)
    told = properties(one)
    document = ended.document
    assert told["kernelqual.digest"] == document.digest
    assert told["kernelqual.universe"] == document.universe
    assert told["kernelqual.complete"] == "true"
    assert told["kernelqual.device"] == "interpreter;stub;stub"
    assert told[f"kernelqual.candidate {ONE_A} ok"] == "qualified;interpreted;"
    assert told[f"kernelqual.candidate {ONE_A} bad"] == "mismatch;;"
    assert told[f"kernelqual.fixed {TWO_A}"] == "qualified"
    candidates = [value for name, value in told.items() if name.startswith("kernelqual.candidate ")]
    in_json = [record.outcome for case in ended.cases.values() for record in case.candidates]
    assert [value.partition(";")[0] for value in candidates] == in_json
    assert candidates.count("fault;;") == 2


def test_hostile_names_are_cleaned_and_stay_readable(ended: Ended) -> None:
    """What XML cannot hold is written out; markup and characters that it can hold come back as they were."""
    (one,) = list(ended.junit)
    (name,) = [name for name in properties(one) if name.startswith(f"kernelqual.candidate {ONE_A} #x1B")]
    assert name.removeprefix(f"kernelqual.candidate {ONE_A} ") == "#x1B[31m<&\"' #xFFFE \U0001f642 #x0A#x00x"
    assert "#x1B[31m<declaration>#x00" in properties(one)["kernelqual.problem qual_stub.py::three"]


@pytest.mark.parametrize("family", ["xunit1", "legacy"])
def test_older_families_carry_properties_in_test_cases(tmp_path: Path, family: str) -> None:
    """Each test case tells its own candidates; the suite keeps what belongs to the run."""
    ended = stub(suite(tmp_path, SPECS), "-o", f"junit_family={family}")
    xml = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    (one,) = list(xml)
    assert not any(name.startswith("kernelqual.candidate ") for name in properties(one))
    assert properties(one)["kernelqual.digest"] == ended.document.digest
    assert properties(case_of(xml, TWO_A)) == {
        f"kernelqual.fixed {TWO_A}": "qualified",
        f"kernelqual.candidate {TWO_A} ok": "qualified;interpreted;",
    }
    assert len(properties(case_of(xml, ONE_A))) == 4
    assert not JENKINS.is_valid(tmp_path / "junit.xml")


def test_older_family_with_a_failing_setup_or_teardown(tmp_path: Path) -> None:
    """An item that fails twice has two test cases by pytest's custom, each with its properties once."""
    folder = suite(tmp_path, {"one": spec(bad="mismatch"), "two": spec()})
    (folder / "conftest.py").write_text(TEARDOWN_FAILS)
    stub(folder, *XUNIT1)
    found = [sorted(properties(case).values()) for case in cases_of(JUnitXml.fromfile(str(tmp_path / "junit.xml")))]
    assert found == [["mismatch;;", "qualified"], ["mismatch;;", "qualified"], ["qualified", "qualified;interpreted;"]]


def test_older_family_tells_what_a_dead_worker_had_finished(tmp_path: Path) -> None:
    """The test case of a crashed worker's item has the candidates that were done."""
    folder = suite(tmp_path, {"one": spec(ok="qualified", deadly="kill_owner", late="qualified"), "two": spec()})
    stub(folder, *XUNIT1, "-p", "xdist.plugin", "-n", "2")
    told = properties(case_of(JUnitXml.fromfile(str(tmp_path / "junit.xml")), ONE_A))
    assert told == {
        f"kernelqual.fixed {ONE_A}": "qualified",
        f"kernelqual.candidate {ONE_A} ok": "qualified;interpreted;",
        f"kernelqual.candidate {ONE_A} deadly": "not_run;;",
        f"kernelqual.candidate {ONE_A} late": "not_run;;",
    }


def test_without_junit_nothing_depends_on_it(tmp_path: Path) -> None:
    """`-p no:junitxml` leaves the report as it is."""
    ended = stub(suite(tmp_path, SPECS), "-o", "junit_family=xunit1", "--junitxml=")
    assert ended.code == 1
    assert not (tmp_path / "junit.xml").exists()
    assert ended.because == ""
