"""Grades of evidence: what a run on a device tells of them, and the laws that grading keeps."""

import json
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import JUnitXml
from scenarios import Ran, run_pytest

from pytest_kernelqual.judge.dead_axes import Launched, dead_axes
from pytest_kernelqual.judge.evidence import EvidenceFacts, grade, strength, weakest
from pytest_kernelqual.judge.verdict import Attempt, case_failures, combine, compared
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo, Hello, Open, Opened, SpecInfo, Tried
from pytest_kernelqual.model.outcome import EVIDENCE
from pytest_kernelqual.model.profiles import FIRST
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, FixedRecord
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.session import CaseSession

TESTS = Path(__file__).parent
SUITE = TESTS / "suites" / "evidence"

# A run on a device, which is pretended.


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run the suite of traps on two input sets."""
    folder = tmp_path_factory.mktemp("evidence")
    for name in ("traps.py", "qual_traps.py"):
        shutil.copy(SUITE / name, folder)
    environment = {"PYTHONPATH": f"{TESTS}", "TRITON_CACHE_DIR": str(folder / "triton")}
    options = [
        "--kernelqual-device=cuda",
        "--kernelqual-seeds=2",
        "--kernelqual-repeats=2",
        "--kernelqual-profiles=none",
        "--junitxml=junit.xml",
    ]
    return run_pytest(
        folder, "-p", "pretended_run", "--kernelqual", *options, ".", kernelqual=False, environment=environment
    )


@pytest.fixture(scope="module")
def suite() -> dict[str, Any]:
    """Give what the suite expects."""
    told = "import qual_traps as q, json; print(json.dumps([q.EXPECTED, q.DEAD, q.FRAGILE]))"
    found = subprocess.run([sys.executable, "-c", told], cwd=SUITE, check=True, capture_output=True, text=True).stdout
    return dict(zip(("expected", "dead", "fragile"), json.loads(found), strict=True))


def records(ran: Ran) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the candidates of the report, by spec and id; each spec has one case."""
    return {
        kernel["kernel"]: {record["id"]: record for case in kernel["cases"] for record in case["candidates"]}
        for kernel in ran.report["kernels"]
    }


def shown(record: dict[str, Any]) -> str:
    """Return a record as the suite expects it."""
    told: str = record["evidence"] or record["outcome"]
    if record["same_program_as"]:
        return f"{told} as {record['same_program_as']}"
    return f"{told} run" if told == "identical_binary" and record["launches"] else told


def test_every_candidate_is_graded_as_it_deserves(ran: Ran, suite: dict[str, Any]) -> None:
    """On all input sets together."""
    assert ran.status == 0, ran.output
    found = records(ran)
    assert found.keys() == suite["expected"].keys()
    wrong = {
        (spec, id_): shown(record)
        for spec, of_spec in found.items()
        for id_, record in of_spec.items()
        if shown(record) not in suite["expected"][spec][id_].split(" or ")
    }
    assert wrong == {}


def test_fragile_candidates_say_why(ran: Ran, suite: dict[str, Any]) -> None:
    """Equal bytes in another order, or in one that is unknown: in the report, and in the summary by kernel."""
    found = records(ran)
    for spec, of_spec in suite["fragile"].items():
        told = {
            id_: record["fragile"] for id_, record in found[spec].items() if record["evidence"] == "identical_bytes"
        }
        assert told == of_spec
    everyone = [record for of_spec in found.values() for record in of_spec.values()]
    assert all((record["evidence"] == "identical_bytes") == bool(record["fragile"]) for record in everyone)
    assert all(record["order"] for record in everyone if record["evidence"] == "identical_order")
    assert "fragile: equal bytes, and another arithmetic order or an unknown one\n" in ran.output
    assert "  sums: num_warps=8: tt.reduce axis 0: elements per thread 8 -> 4, warps along" in ran.output


def test_order_of_the_fixed_launch_is_told(ran: Ran) -> None:
    """Equal to that of a candidate that has its order, and other than that of one that has not."""
    for kernel in ran.report["kernels"]:
        if kernel["kernel"] in {"limited", "sums"}:
            (case,) = kernel["cases"]
            orders = {record["evidence"]: record["order"] for record in case["candidates"]}
            assert case["fixed"]["order"]
            assert orders.get("identical_order", case["fixed"]["order"]) == case["fixed"]["order"]
            assert orders.get("identical_bytes") != case["fixed"]["order"]


def test_what_was_not_run_says_so(ran: Ran) -> None:
    """Its own program on both input sets: no launches, a reason, and the resources of the fixed launch."""
    of_stages = records(ran)["stages"]
    same, other, twin = (of_stages[f"num_warps={warps},num_stages={n}"] for warps, n in ((4, 1), (8, 1), (8, 2)))
    assert (same["launches"], same["seeds"], same["resources"]["registers"]) == (0, 2, 32)
    assert same["reason"] == "not run: it is the program of the fixed launch"
    (fixed,) = (kernel["cases"][0]["fixed"] for kernel in ran.report["kernels"] if kernel["kernel"] == "stages")
    assert fixed["resources"] == same["resources"]
    assert (other["launches"], twin["launches"], other["reason"], twin["reason"]) == (4, 0, "", "")


def test_axes_that_change_nothing_are_named(ran: Ran, suite: dict[str, Any]) -> None:
    """In the report by case, in the summary by kernel."""
    named = {
        kernel["kernel"]: case["dead_axes"]
        for kernel in ran.report["kernels"]
        for case in kernel["cases"]
        if case["dead_axes"]
    }
    assert named == suite["dead"]
    assert "dead axes, which change nothing in what is launched\n  stages: num_stages (1 of 1 case)\n" in ran.output


def test_counts_of_evidence_agree_everywhere(ran: Ran) -> None:
    """Report, summary of the run and of the file, JUnit; the fixed launch's own config proves nothing."""
    told = [record for of_spec in records(ran).values() for record in of_spec.values()]
    counts = {
        name: sum(record["evidence"] == name and not record["same_as_fixed"] for record in told)
        for name in ("identical_binary", "identical_order", "identical_bytes")
    }
    assert any(record["same_as_fixed"] for record in told)
    assert min(counts.values()) > 2
    controls = ran.report["controls"]
    assert controls["evidence"] == counts
    assert controls["compared"] < sum(controls["outcomes"].values())
    line = f"evidence: {', '.join(f'{count} {name}' for name, count in counts.items())}\n"
    assert line in ran.output
    again = subprocess.run(
        [sys.executable, "-m", "pytest_kernelqual", "summary", "qualified-configurations.json"],
        cwd=ran.folder, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert line in again.stdout
    properties = [one for suite in JUnitXml.fromfile(str(ran.folder / "junit.xml")) for one in suite.properties()]
    values = {one.name: one.value for one in properties}
    nodeid = "qual_traps.py::stages::test_candidates[n1000]"
    assert values[f"kernelqual.candidate {nodeid} num_warps=4,num_stages=1"] == "qualified;identical_binary;"


def test_check_for_gpus(tmp_path: Path) -> None:
    """What `benchmarks/evidence_on_gpu.py` finds wrong: this device has no memory of its own, as a GPU has."""
    script = TESTS.parent / "benchmarks" / "evidence_on_gpu.py"
    run = (
        f"import runpy, pretended_run as p; p.pytest_configure(); runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, "--traps", "--check", "--only", "stages", "listed"],
        env={**os.environ, "PYTHONPATH": str(TESTS), "TRITON_CACHE_DIR": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    *_, heading, _, _, _, last = done.stdout.splitlines()
    assert (done.returncode, heading) == (1, "4 not as they must be"), done.stdout + done.stderr
    assert last.startswith("listed[n1000] num_stages=2,num_warps=4: identical_binary and not identical_bytes")


# What is looked at, and what becomes of a look that goes wrong.


class ScriptedDevice:
    """A device process that answers from a script: what becomes of a candidate when it is looked at, by input set."""

    last_error = None

    def __init__(self, script: dict[str, list[Tried]]) -> None:
        """Keep what a look gives; a run qualifies."""
        self.script = script
        self.seed = -1
        self.asked: list[tuple[str, int, bool]] = []

    def hello(self) -> Hello:
        """Say that it is a GPU."""
        return Hello(kind="cuda")

    def ask(self, request: Any, limits: Any, on_progress: Any = None) -> Any:
        """Answer."""
        del limits, on_progress
        if isinstance(request, Open):
            self.seed = request.seed_index
            return Opened(outcome="qualified", output="sha256:0")
        config = str(request.config["A"])
        self.asked.append((config, self.seed, request.look))
        ran = Tried(outcome="qualified", evidence="identical_bytes", launches=2)
        return self.script[config][self.seed] if request.look else ran


class Deaf:
    """Hears nothing."""

    def __getattr__(self, _name: str) -> Any:
        """Take anything."""
        return lambda *_told: None


def qualified_on(script: dict[str, list[Tried]]) -> tuple[CaseRecord, list[tuple[str, int, bool]]]:
    """Return the record of a case on two input sets, and what was asked."""
    device: Any = ScriptedDevice(script)
    candidates = [CandidateInfo(id=f"A={name}", config={"A": name}, program=f"A={name}") for name in script]
    case = CaseInfo(id="n", axes={}, key={})
    spec = SpecInfo(name="spec", line=1, cases=[case], candidates=candidates)
    listener: Any = Deaf()
    settings = Settings(root_dir=".", seeds=2, profiles=())
    return CaseSession("x.py", spec, case, device=device, settings=settings, listener=listener).run(), device.asked


def seen(program: str, **more: Any) -> Tried:
    """Return an attempt that was looked at."""
    return Tried(**{"outcome": "qualified", "evidence": "identical_bytes", "program": program, "launches": 2, **more})


def test_programs_of_their_own_are_looked_at_once() -> None:
    """What equals the fixed launch's program, or another's, is looked at on each input set, and no other."""
    fixed = seen("fixed", evidence="identical_binary", launches=0)
    twin = seen("two", launches=0, same_program_as="A=2")
    case, asked = qualified_on({"1": [fixed] * 2, "2": [seen("two")] * 2, "3": [twin] * 2, "4": [seen("four")]})
    assert [(name, look) for name, seed, look in asked if seed == 0] == [(name, True) for name in "1234"]
    assert [(name, look) for name, seed, look in asked if seed == 1] == [
        ("1", True), ("2", True), ("3", True), ("4", False)
    ]  # fmt: skip
    assert [record.launches for record in case.candidates] == [0, 4, 0, 4]
    assert [record.same_program_as for record in case.candidates] == [None, None, "A=2", None]
    assert case.dead_axes == []


def test_what_was_known_of_one_input_set_alone_is_not_claimed() -> None:
    """On the second one the candidate was run."""
    fixed = seen("fixed", evidence="identical_binary", launches=0, reason="not run")
    case, _ = qualified_on({"1": [fixed, seen("other")], "2": [seen("fixed"), seen("fixed", same_program_as="A=1")]})
    first, second = case.candidates
    assert (first.evidence, first.reason, first.launches) == ("identical_bytes", "", 2)
    assert second.same_program_as is None


@pytest.mark.parametrize("outcome", ["fault", "timeout"])
def test_look_that_goes_wrong_tells_nothing_of_the_candidate(outcome: Any) -> None:
    """It is run in a new process."""
    died = Tried(outcome=outcome, phase="inputs", fatal=True)
    case, asked = qualified_on({"1": [died, seen("one")]})
    assert [look for _, _, look in asked] == [True, False, False]
    assert (case.candidates[0].outcome, case.candidates[0].launches, case.restarts) == ("qualified", 4, 1)


def test_fault_of_a_launch_is_one_whatever_was_looked_at() -> None:
    """Further attempts without a look do not make it undone."""
    case, asked = qualified_on({"1": [Tried(outcome="fault", phase="run", fatal=True)]})
    assert case.candidates[0].outcome == "fault"
    assert [look for _, _, look in asked] == [True, False, False]


# Laws of grading.

facts = st.builds(EvidenceFacts, interpreted=st.booleans(), same_program=st.booleans(), same_order=st.booleans())
evidence = st.sampled_from([None, *EVIDENCE])


def test_grades_from_the_weakest_on() -> None:
    """The names of the report, in the order in which they prove more."""
    assert strength(None) < strength("interpreted") < strength("identical_bytes") < strength("identical_binary")


@given(facts)
def test_more_known_never_proves_less(known: EvidenceFacts) -> None:
    """And the interpreter proves nothing of a device's bytes, whatever else is known."""
    assert strength(grade(known)) <= strength(grade(known._replace(same_program=True)))
    assert strength(grade(known)) <= strength(grade(known._replace(same_order=True)))
    assert grade(known._replace(interpreted=True)) == "interpreted"


@given(st.lists(evidence, min_size=1), st.data())
def test_input_sets_prove_no_more_than_the_weakest_of_them(found: list[Any], data: st.DataObject) -> None:
    """In whatever order they come, and more of them never more."""
    together = weakest(found)
    assert together in found
    assert all(strength(together) <= strength(one) for one in found)
    assert weakest(data.draw(st.permutations(found))) == together
    assert strength(weakest([*found, data.draw(evidence)])) <= strength(together)


@given(st.lists(st.tuples(evidence.filter(bool), st.none() | st.just("A")), min_size=1))
def test_record_claims_only_what_every_input_set_showed(attempts: list[tuple[Any, str | None]]) -> None:
    """Evidence, and that another's run stands for it."""
    tried = [Tried(outcome="qualified", evidence=grade_, same_program_as=twin) for grade_, twin in attempts]
    record = combine(CandidateInfo(id="B", config={}, program="B"), [Attempt(FIRST, one) for one in tried])
    assert record.evidence == weakest(grade_ for grade_, _ in attempts)
    assert record.same_program_as == ("A" if all(twin for _, twin in attempts) else None)


@pytest.mark.parametrize("outcome", ["mismatch", "nondeterministic", "incomplete_write", "out_of_bounds_write"])
def test_no_evidence_outweighs_a_difference(outcome: Any) -> None:
    """Proved on one input set, and wrong on another."""
    info = CandidateInfo(id="B", config={}, program="B")
    proved = Tried(outcome="qualified", evidence="identical_binary")
    record = combine(info, [Attempt(FIRST, proved), Attempt(FIRST, Tried(outcome=outcome, launches=1))])
    assert (record.outcome, record.evidence) == (outcome, None)


def candidate(**known: Any) -> CandidateRecord:
    """Return a qualified candidate."""
    return CandidateRecord(id="A", config={}, outcome="qualified", **known)


@pytest.mark.parametrize(
    ("known", "is_compared", "passes"),
    [
        ({"evidence": "identical_bytes", "launches": 2}, True, True),
        ({"evidence": "identical_binary", "launches": 2}, True, True),
        ({"evidence": "identical_binary"}, False, True),
        ({"evidence": "identical_binary", "same_as_fixed": True}, False, False),
        ({"evidence": "identical_bytes", "launches": 2, "same_as_fixed": True}, False, False),
    ],
)
def test_case_in_which_all_is_known_without_running_passes(
    known: dict[str, Any],
    is_compared: bool,  # noqa: FBT001 - an expected value
    passes: bool,  # noqa: FBT001 - as above
) -> None:
    """It was proved for a config that production does not launch; the fixed launch itself proves nothing."""
    record = candidate(**known)
    assert compared(record) is is_compared
    assert (case_failures(FixedRecord(outcome="qualified"), [record], screen=None) == []) is passes


# Dead axes.

AXES = {"BLOCK": (32, 64), "num_stages": (1, 2, 3)}


def space(program_of: Any, **more: Any) -> list[Launched]:
    """Return the grid of the axes with the programs that a function gives."""
    configs = [dict(zip(AXES, values, strict=True)) for values in product(*AXES.values())]
    return [Launched(config, (program_of(config),), **more) for config in configs]


def test_axis_is_dead_where_no_change_of_it_changes_anything() -> None:
    """Among candidates that agree in all else."""
    assert dead_axes(space(lambda config: str(config["BLOCK"]))) == ["num_stages"]
    assert dead_axes(space(lambda _: "one")) == ["BLOCK", "num_stages"]
    assert dead_axes(space(str)) == []


def test_one_change_that_matters_is_enough() -> None:
    """For one value of another axis alone."""
    last = {"BLOCK": 64, "num_stages": 3}
    assert dead_axes(space(lambda config: "other" if config == last else str(config["BLOCK"]))) == []


def test_what_is_not_known_keeps_an_axis_alive() -> None:
    """A candidate that ran, of which no program is known; what cannot be compiled with any value tells nothing."""
    known = space(lambda config: str(config["BLOCK"]))
    assert dead_axes([*known[:-1], known[-1]._replace(programs=())]) == []
    assert dead_axes([*known[:-1], known[-1]._replace(programs=(), ran=False)]) == []
    without = [one._replace(programs=(), ran=False) if one.config["BLOCK"] == 64 else one for one in known]
    assert dead_axes(without) == ["num_stages"]
    assert dead_axes([one._replace(programs=(), ran=False) for one in known]) == []
    assert dead_axes([]) == []


def test_input_sets_count_each() -> None:
    """An axis that is dead on the first one may matter on the second."""
    one, two = ({"SPARE": value} for value in (1, 2))
    assert dead_axes([Launched(one, ("a", "b")), Launched(two, ("a", "b"))]) == ["SPARE"]
    assert dead_axes([Launched(one, ("a", "b")), Launched(two, ("a", "c"))]) == []


def test_values_of_other_types_are_other_values() -> None:
    """`True` and `1` are two values of one axis, and two configs."""
    assert dead_axes([Launched({"EVEN": True}, ("a",)), Launched({"EVEN": 1}, ("a",))]) == ["EVEN"]
    assert dead_axes([Launched({"A": True, "B": 1}, ("a",)), Launched({"A": 1, "B": 2}, ("a",))]) == []


@given(st.permutations(range(6)))
def test_order_of_candidates_changes_nothing(order: list[int]) -> None:
    """As ever."""
    found = space(lambda config: str(config["BLOCK"]))
    assert dead_axes([found[at] for at in order]) == ["num_stages"]
