"""Every outcome that needs no GPU, end to end: real kernels, one run of `pytest --kernelqual`."""

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from acceptance import BASIC, Ended, assert_agree, candidate, failed_in_junit, run

from pytest_kernelqual.model.record import CaseRecord, KernelRecord

QUALIFIED = {"BLOCK=32": "qualified", "BLOCK=128": "qualified"}
GOOD = {f"BLOCK={block},num_warps={warps}": "qualified" for block in (32, 128) for warps in (1, 4)}

# What the suite declares: spec, outcome of the fixed launch, of each candidate, and whether the item passes.
DECLARED: dict[str, tuple[str, dict[str, str], bool]] = {
    "good": ("qualified", GOOD, True),
    "in_place": ("qualified", QUALIFIED, True),
    "faulty": (
        "qualified",
        {
            "FAULT=none": "qualified",
            "FAULT=mismatch": "mismatch",
            "FAULT=short": "incomplete_write",
            "FAULT=long": "out_of_bounds_write",
            "FAULT=input": "out_of_bounds_write",
            "FAULT=poison": "incomplete_write",
        },
        False,
    ),
    "screened": ("qualified", {"FAULT=none": "qualified", "FAULT=mismatch": "mismatch"}, True),
    "tuple_grid": ("qualified", {"BLOCK=32,num_warps=1": "unsupported", "BLOCK=64,num_warps=1": "qualified"}, True),
    "planted": (
        "qualified",
        {
            "FAULT=before": "qualified",
            "FAULT=abort": "fault",
            "FAULT=hang": "timeout",
            "FAULT=raise": "launch_error",
            "FAULT=after": "qualified",
        },
        False,
    ),
    "excluded": ("qualified", {"SIZE=1": "qualified", "SIZE=2": "unsupported"}, True),
    "restless": ("qualified", {"A=1": "nondeterministic"}, False),
    "restless_fixed": ("nondeterministic", {"A=1": "not_run"}, False),
    "unwritten_fixed": ("incomplete_write", {"A=1": "not_run"}, False),
}


@cache
def basic_run(*arguments: str) -> Ended:
    """Run the suite `basic` once for all who ask with the same arguments."""
    folder = _folder()
    for file in BASIC.glob("*.py"):
        shutil.copy(file, folder)
    (folder / "pytest.ini").write_text("[pytest]\nkernelqual_paths = .\n")
    ended = run(folder, *arguments)
    # Every run has the same path, which reports name.
    kept = folder.with_name(f"after{'_'.join(arguments)}")
    folder.rename(kept)
    folder.mkdir()
    return ended._replace(folder=kept)


@cache
def _folder() -> Path:
    folder = Path(mkdtemp(prefix="kernelqual-")) / "basic"
    folder.mkdir()
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    return folder


@pytest.fixture(scope="module")
def ended() -> Ended:
    """Return the run of the suite."""
    return basic_run()


def kernel_of(ended: Ended, name: str) -> KernelRecord:
    """Return one kernel's record."""
    return next(kernel for kernel in ended.document.kernels if kernel.kernel == name)


@pytest.mark.parametrize("name", DECLARED)
def test_each_candidate_gets_the_outcome_that_was_planted(ended: Ended, name: str) -> None:
    """The fixed launch, every candidate in declared order, and whether the item passes."""
    fixed, candidates, passes = DECLARED[name]
    for case in kernel_of(ended, name).cases:
        assert case.fixed.outcome == fixed
        assert [(record.id, record.outcome) for record in case.candidates] == list(candidates.items())
        assert case.passed is passes
        assert bool(case.failures) is not passes


def test_the_whole_suite_in_declared_order(ended: Ended) -> None:
    """No spec is lost, the report is complete, and all reports tell the same."""
    document = ended.document
    assert [kernel.kernel for kernel in document.kernels] == list(DECLARED)
    assert [case.id for case in kernel_of(ended, "good").cases] == ["n300-float32", "n129-bfloat16"]
    assert ended.because == ""
    assert_agree(ended)
    assert len(failed_in_junit(ended.junit)) == 5


def test_faults_cost_their_own_processes_and_nothing_else(ended: Ended) -> None:
    """An abort takes a process on each of three attempts, a hang one; no other case needs a new one."""
    restarts = {kernel.kernel: [case.restarts for case in kernel.cases] for kernel in ended.document.kernels}
    assert restarts.pop("planted") == [4]
    assert {count for counts in restarts.values() for count in counts} == {0}


def test_reasons_say_what_happened(ended: Ended) -> None:
    """Each reason names the fact that a person needs."""
    faulty, planted = (kernel_of(ended, name).cases[0] for name in ("faulty", "planted"))
    told: list[tuple[CaseRecord, str, str]] = [
        (faulty, "FAULT=short", "1 elements of return, first at (299,)"),
        (faulty, "FAULT=long", "4 bytes written after the end of allocation"),
        (faulty, "FAULT=input", "input x was changed"),
        (planted, "FAULT=abort", "SIGABRT"),
        (planted, "FAULT=hang", "no answer within 2 s in phase run"),
        (planted, "FAULT=raise", "ValueError: planted"),
        (kernel_of(ended, "tuple_grid").cases[0], "BLOCK=32,num_warps=1", "grid does not follow BLOCK"),
        (kernel_of(ended, "excluded").cases[0], "SIZE=2", "too big for it"),
        (kernel_of(ended, "restless_fixed").cases[0], "A=1", "no baseline: the fixed launch is nondeterministic"),
    ]
    for case, id_, words in told:
        assert words in candidate(case, id_).reason
    assert "_planted" in candidate(planted, "FAULT=abort").detail["log"]
    assert candidate(faulty, "FAULT=mismatch").detail["mismatches"][0]["differing"] == 300


def test_evidence_is_what_the_interpreter_can_give(ended: Ended) -> None:
    """Qualified candidates have the weakest grade, others none; launch options alone are run once."""
    for case in ended.cases.values():
        for record in case.candidates:
            assert record.evidence == ("interpreted" if record.outcome == "qualified" else None)
    twins = [record.same_program_as for record in kernel_of(ended, "good").cases[0].candidates]
    assert twins == [None, "BLOCK=32,num_warps=1", None, "BLOCK=128,num_warps=1"]


def test_provenance(ended: Ended) -> None:
    """The report tells where and when, which inputs, and which case ran smaller."""
    environment = ended.document.environment
    assert environment is not None
    assert (environment.device.kind, environment.seeds, environment.repeats) == ("interpreter", 1, 2)
    assert environment.torch
    assert environment.triton
    assert environment.started_at.endswith("+00:00")
    assert environment.duration_s > 0
    small = kernel_of(ended, "good").cases[1]
    assert (small.case["n"], small.ran_as) == (129, {"n": 65, "dtype": "bfloat16"})
    assert all((case.inputs or "").startswith("sha256:") for case in ended.cases.values())


def test_summary_names_kernels_and_failures(ended: Ended) -> None:
    """The terminal shows the table and each failing candidate, and says that no GPU was used."""
    for words in (
        "no GPU is used",
        "screened (screened)",
        "fixed launches that cannot serve as reference (2)",
        "failing candidates (8)",
        "recorded, not failing (6)",
        "planted[n8] FAULT=hang: timeout",
    ):
        assert words in ended.text
    assert "kernelqual device log" in ended.text


DAMAGING = """
import functools, torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, kernel_spec

@triton.jit
def _scale(x, y, work, n, BLOCK: tl.constexpr, BAD: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
    if BAD:
        tl.store(x + n + at, at.to(tl.float32), mask=at < 4)
        tl.store(work + n + at, at.to(tl.float32), mask=at < 4)

@functools.cache
def workspace(n):
    return torch.empty(n)

def scale(x, BLOCK, BAD):
    y = torch.empty_like(x)
    _scale[(1,)](x, y, workspace(64), x.numel(), BLOCK=BLOCK, BAD=BAD)
    if BAD:
        raise RuntimeError("the host gives up")
    return y

CANDIDATES = [Config(BLOCK=64, BAD=1), Config(BLOCK=128, BAD=0), Config(BLOCK=128, BAD=1)]

@kernel_spec(kernel=_scale, candidates=CANDIDATES, cases=[Case(n=64, of="first"), Case(n=64, of="second")])
def scaled(case, seeded):
    x = seeded.normal((case.n,), name="x")
    return lambda config: scale(x, **(config or {"BLOCK": 64, "BAD": 0}))
"""


def test_damage_by_a_launch_that_failed_is_no_later_launchs(tmp_path: Path) -> None:
    """Neither the next candidate's, nor the next case's where memory outlives launches."""
    (tmp_path / "qual_damaging.py").write_text(DAMAGING)
    ended = run(tmp_path, "--kernelqual", "qual_damaging.py")
    gave_up, good = "launch_error", "qualified"
    outcomes = [(case.fixed.outcome, [record.outcome for record in case.candidates]) for case in ended.cases.values()]
    assert outcomes == [(good, [gave_up, good, gave_up])] * 2
