"""Records for the tests of reports: one small run written out, and hypothesis strategies for any run."""

from typing import Any, get_args

from hypothesis import strategies as st

from pytest_kernelqual.judge.verdict import case_failures
from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES, Phase
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    DeviceDescriptor,
    Environment,
    FixedRecord,
    InputSetRecord,
    KernelRecord,
)
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord
from pytest_kernelqual.report.plan import Plan, PlannedCase, PlannedKernel

NODEID = "kernels/qual_rms_norm.py::rms_norm_fwd::test_candidates[rows3-cols515-float16]"
MISMATCH = {
    "output": "return",
    "elements": 4096,
    "differing": 12,
    "first_index": [3, 17],
    "expected": "1.5",
    "actual": "1.25",
    "max_absolute": 0.25,
    "max_ulp": 1,
    "diagnosis": "rounding",
}

ENVIRONMENT = Environment(
    device=DeviceDescriptor(kind="cuda", name="NVIDIA H200", architecture="sm_90", compute_units=132),
    driver="550.1",
    torch="2.13.0",
    triton="3.7.1",
    python="3.11.9",
    seeds=2,
    repeats=4,
    started_at="2025-01-01T00:00:00Z",
)


def candidate(id_: str = "num_warps=8", outcome: Any = "qualified", **more: Any) -> CandidateRecord:
    """Return a record with the evidence that its outcome allows."""
    evidence = "identical_bytes" if outcome == "qualified" else None
    return CandidateRecord(**{"id": id_, "config": {}, "outcome": outcome, "evidence": evidence, **more})


def case(*candidates: CandidateRecord, id_: str = "rows3-cols515-float16", **more: Any) -> CaseRecord:
    """Return a case judged as a run judges it."""
    fixed = more.pop("fixed", FixedRecord(outcome="qualified"))
    failures = case_failures(fixed, candidates, screen=more.pop("screen", None))
    given = {"failures": failures, "passed": not failures, "nodeid": NODEID, **more}
    return CaseRecord(
        id=id_, case={"rows": 3, "cols": 515}, key={"cols": 515}, fixed=fixed, candidates=list(candidates), **given
    )


def kernel(*cases: CaseRecord, name: str = "rms_norm_fwd", **more: Any) -> KernelRecord:
    """Return a kernel with its cases."""
    return KernelRecord(kernel=name, nodeid=f"kernels/qual_{name}.py::{name}", cases=list(cases), **more)


def mismatching(id_: str = "num_warps=16", **more: Any) -> CandidateRecord:
    """Return a candidate whose bytes differ."""
    return candidate(id_, "mismatch", reason="bytes differ", detail={"mismatches": [{**MISMATCH, **more}]})


def plan_of(kernels: list[KernelRecord]) -> Plan:
    """Return the plan that these records carry out."""
    planned = [
        PlannedKernel(
            kernel=each.kernel,
            nodeid=each.nodeid,
            screen=each.screen,
            notes=each.notes,
            problem=each.problem,
            cases=[
                PlannedCase(
                    id=one.id,
                    case=one.case,
                    key=one.key,
                    ran_as=one.ran_as,
                    nodeid=one.nodeid,
                    candidates=[(record.id, record.config) for record in one.candidates],
                )
                for one in each.cases
            ],
        )
        for each in kernels
    ]
    return Plan(kernels=planned, nodeids=[one.nodeid for each in kernels for one in each.cases])


# Any text that a record may carry: control characters, quotes, lone surrogates, astral characters.
text = st.text(st.characters(), max_size=6)
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
_configs = st.dictionaries(text, _scalars, max_size=3)
_facts = st.dictionaries(text, _scalars | st.lists(_scalars, max_size=2), max_size=2)
_outcomes = st.sampled_from(OUTCOMES)

candidates = st.builds(
    CandidateRecord,
    id=text,
    config=_configs,
    outcome=_outcomes,
    reason=text,
    evidence=st.sampled_from([None, *EVIDENCE]),
    phase=st.none() | st.sampled_from(get_args(Phase)),
    detail=_facts,
    seeds=st.integers(0, 3),
    same_program_as=st.none() | text,
    same_as_fixed=st.booleans(),
)
_resources = st.dictionaries(st.sampled_from(["registers", "shared_bytes"]), st.integers(0, 3))
fixed_records = st.builds(
    FixedRecord, outcome=_outcomes, reason=text, config=_configs, detail=_facts, resources=_resources
)
_targets = st.builds(
    TargetRecord,
    target=text,
    shared_limit_bytes=st.just(1024),
    launches=st.lists(
        st.builds(
            TargetLaunch,
            id=text,
            outcome=st.sampled_from(["fits", "out_of_resources", "unknown"]),
            resources=_resources,
            evidence=st.sampled_from([None, "identical_binary", "identical_order"]),
        ),
        max_size=2,
    ),
)
cases = st.builds(
    CaseRecord,
    id=text,
    case=_facts,
    key=_configs,
    nodeid=text,
    inputs=st.none() | text,
    fixed=fixed_records,
    candidates=st.lists(candidates, max_size=3),
    targets=st.lists(_targets, max_size=2),
    input_sets=st.lists(
        st.builds(InputSetRecord, profile=text, seed=st.just(0), set_aside=text, declared=st.booleans()), max_size=2
    ),
    dead_axes=st.lists(text, max_size=2),
    passed=st.booleans(),
    failures=st.lists(text, max_size=2),
    duration_s=st.floats(0, 1e9),
)
kernels = st.lists(
    st.builds(
        KernelRecord,
        kernel=text,
        nodeid=text,
        screen=st.none() | text,
        notes=st.lists(text, max_size=1),
        cases=st.lists(cases, max_size=2),
        problem=text,
    ),
    max_size=3,
)
