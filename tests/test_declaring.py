"""Declaring kernels: what every kind of spec gives, and the one message that each wrong declaration gets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scenarios import OPS, Ran, Runs, runs

KINDS = Path(__file__).parent / "suites" / "kinds"

# Each spec is wrong in one way, and the good ones around them must go on.
WRONG = """
    import pytest
    from ops import double, double_kernel
    from pytest_kernelqual import Case, Config, grid, kernel_spec


    def spec(**options):
        given = {"kernel": double_kernel, "candidates": grid(BLOCK=[32]), "cases": [Case(n=10)], **options}
        return kernel_spec(**given)


    class Evil:
        def __getattr__(self, name):
            raise RuntimeError("evil")


    class Nameless:
        @property
        def name(self):
            raise RuntimeError("nameless")


    @spec()
    def good(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: double(x)

    @spec(candidates=grid(num_warp=[1]))
    def misspelled(case, seeded): return lambda: None

    @spec(candidates=grid(n=[1]))
    def runtime_argument(case, seeded): return lambda: None

    @spec(candidates=grid(num_warps=[1.0]))
    def float_warps(case, seeded): return lambda: None

    @spec(fixed=Config(BLOCK=32))
    def fixed_untuned(case, seeded): return lambda: None

    @spec(grid_independent=("BLOK",))
    def independent(case, seeded): return lambda: None

    @spec(kernel=double)
    def not_a_kernel(case, seeded): return lambda: None

    @spec(kernel=Evil())
    def evil(case, seeded): return lambda: None

    @spec(candidates=None)
    def no_candidates(case, seeded): return lambda: None

    @spec(kernel=None, grid=lambda meta: (1,))
    def grid_without_kernel(case, seeded): return lambda config: None

    @spec(marks=[5])
    def number_as_mark(case, seeded): return lambda: None

    @spec(marks=[pytest.mark.slow(object())])
    def object_in_mark(case, seeded): return lambda: None

    @spec(marks=[Nameless()])
    def nameless_mark(case, seeded): return lambda: None

    @spec(marks=["skip"])
    def skipping_mark(case, seeded): return lambda: None

    @spec(marks=["parametrize"])
    def parametrizing_mark(case, seeded): return lambda: None

    @spec(marks=["undeclared"])
    def strict_mark(case, seeded): return lambda: None

    @spec()
    def shadowed(case, seeded): return lambda: None

    @spec()
    def shadowed(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: double(x)

    @spec()
    def overwritten(case, seeded): return lambda: None

    overwritten = 5

    def local():
        @spec()
        def inner(case, seeded): return lambda: None

    local()

    @spec(candidates=[Config(BLOCK=10**6000)])
    def huge(case, seeded): return lambda: None

    @spec(cases=[Case(s="\\ud800")])
    def surrogate(case, seeded): return lambda: None

    @spec(cases=[Case(n=10, s="a/b::c[d]\\n \\u00e9")])
    def odd_id(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: double(x)

    odd_id.builder.__doc__ = "Documented with \\ud800."

    @kernel_spec
    def bare(case, seeded): return lambda: None

    @spec()
    class NotAFunction: pass

    @spec()
    def last(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: double(x)
"""

# A spec stands on the line of its decorator.
SHADOWED = WRONG[: WRONG.index("def shadowed")].count("\n")

WRONG_MESSAGES = {
    "misspelled": "kernel double_kernel has no meta-parameter or launch option 'num_warp'; did you mean 'num_warps'?",
    "runtime_argument": "'n' is a runtime argument of kernel double_kernel",
    "float_warps": "num_warps=1.0 is a float; use a whole number",
    "fixed_untuned": "fixed= is for autotuned kernels",
    "independent": "grid_independent names 'BLOK'",
    "not_a_kernel": "is a function, not a Triton kernel",
    "evil": "is a qual_wrong.Evil, not a Triton kernel",
    "no_candidates": "candidates are missing: double_kernel has no configs of its own",
    "grid_without_kernel": "grid= needs kernel=",
    "number_as_mark": "mark 5 must be a name or a pytest.mark object",
    "object_in_mark": "must be a name or a pytest.mark object with plain arguments",
    "nameless_mark": "the spec cannot be described",
    "skipping_mark": "mark 'skip': a spec is never skipped",
    "parametrizing_mark": "mark 'parametrize': cases= parametrizes a spec",
    "strict_mark": "'undeclared' not found in `markers` configuration option",
    f"shadowed_line{SHADOWED}": f"the spec 'shadowed' of line {SHADOWED} is shadowed by line {SHADOWED + 3}",
    "overwritten": "is shadowed by 5 of the same name; rename one",
    "inner": "is no global of its file; give it that name at module level",
    "huge": "config value BLOCK=<int of 19932 bits> does not fit 64 bits",
    "surrogate": "holds half of a surrogate pair",
    "bare": "write @kernel_spec(kernel=..., cases=[...])",
    "NotAFunction": "decorate a function (case, seeded) that returns a launch",
}

TWIN = """
    from ops import double, double_kernel
    from pytest_kernelqual import Case, grid, kernel_spec

    @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32]), cases=[Case(n=10)])
    def good(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: double(x)

    @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32]), cases=[Case(n=10)])
    def other(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: double(x)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Start the runs of this file."""
    with runs(tmp_path_factory.mktemp("declaring")) as started:
        kinds = {path.name: path.read_text() for path in KINDS.glob("*.py")}
        started.start("kinds", {**kinds, "pytest.ini": "[pytest]\nkernelqual_paths = .\n"}, "-rA")
        wrong = {"ops.py": OPS, "qual_wrong.py": WRONG, "qual_zz_twin.py": TWIN}
        started.start("wrong", {**wrong, "pytest.ini": "[pytest]\nkernelqual_paths = .\n"}, "-rA", "--strict-markers")
        yield started


@pytest.fixture(scope="module")
def kinds(ran: Runs) -> dict[str, list[dict[str, Any]]]:
    """Return the cases of each kernel of the suite."""
    assert ran["kinds"].status == 0, ran["kinds"].output
    return {kernel["kernel"]: kernel["cases"] for kernel in ran["kinds"].report["kernels"]}


def outcomes(cases: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the outcomes of each candidate over all cases."""
    found: dict[str, set[str]] = {}
    for case in cases:
        for record in case["candidates"]:
            found.setdefault(record["id"], set()).add(record["outcome"])
    return found


QUALIFIED = {"qualified"}


def test_autotuned_kernel_brings_its_own_configs(kinds: dict[str, list[dict[str, Any]]], ran: Runs) -> None:
    """The report says that the first of them is the fixed launch."""
    ids = [f"BLOCK={block},num_warps={warps},num_stages=3" for block in (32, 64) for warps in (1, 2)]
    assert outcomes(kinds["own_configs"]) == dict.fromkeys(ids, QUALIFIED)
    notes = {kernel["kernel"]: kernel["notes"] for kernel in ran["kinds"].report["kernels"]}
    first = f"fixed launch of the autotuned tuned_kernel: {ids[0]} (the first of its configs"
    assert [note.startswith(first) for note in notes["own_configs"]] == [True]
    assert notes["named_fixed"] == [
        "fixed launch of the autotuned tuned_kernel: BLOCK=64,num_warps=2 (named by the spec)"
    ]


def test_named_fixed_config_is_what_is_launched(kinds: dict[str, list[dict[str, Any]]]) -> None:
    """And the candidates given beside it are not the autotuner's."""
    fixed = [case["fixed"]["config"] for case in kinds["named_fixed"]]
    assert [(config["BLOCK"], config["num_warps"]) for config in fixed] == [(64, 2), (64, 2)]
    assert outcomes(kinds["named_fixed"]) == {"BLOCK=16": QUALIFIED}


def test_heuristics_follow_the_forced_config(kinds: dict[str, list[dict[str, Any]]]) -> None:
    """BLOCK=128 divides 128 and not 150: with EVEN of the fixed launch it would write out of bounds."""
    found = outcomes(kinds["heuristics"])
    assert (found["BLOCK=32"], found["BLOCK=128"]) == (QUALIFIED, QUALIFIED)
    assert found["BLOCK=100"].isdisjoint(QUALIFIED)
    assert [case["fixed"]["config"]["EVEN"] for case in kinds["heuristics"]] == [False, True]


def test_tuple_grids(kinds: dict[str, list[dict[str, Any]]]) -> None:
    """A tuple grid follows by grid=, by grid_independent=, or not at all."""
    assert set().union(*outcomes(kinds["given_grid"]).values()) == QUALIFIED
    assert len(outcomes(kinds["given_grid"])) == 4
    assert outcomes(kinds["independent_grid"]) == {"UNROLL=1": QUALIFIED, "UNROLL=4": QUALIFIED}
    assert outcomes(kinds["following_grid"]) == {"BLOCK=32,UNROLL=2": {"unsupported"}, "BLOCK=64,UNROLL=2": QUALIFIED}
    reason = kinds["following_grid"][0]["candidates"][0]["reason"]
    assert reason.startswith("grid does not follow BLOCK: ")
    assert "grid_independent=('BLOCK',)" in reason


@pytest.mark.parametrize("kernel", ["launched_twice", "among_others"])
def test_several_launches_and_kernels_in_one_call(kinds: dict[str, list[dict[str, Any]]], kernel: str) -> None:
    """Every launch of the kernel takes the config, and no other kernel does."""
    assert outcomes(kinds[kernel]) == {"BLOCK=16": QUALIFIED, "BLOCK=64": QUALIFIED}


def test_launch_that_takes_the_config(kinds: dict[str, list[dict[str, Any]]]) -> None:
    """A screened spec records the bad candidate and passes; 2 and 2.0 are two candidates."""
    assert outcomes(kinds["config_taken"]) == {"FACTOR=2": QUALIFIED, "FACTOR=2.0": QUALIFIED, "FACTOR=3": {"mismatch"}}


@pytest.mark.parametrize("name", WRONG_MESSAGES)
def test_wrong_declaration_is_one_failing_item_with_one_message(ran: Runs, name: str) -> None:
    """The message stands in the summary, and in the report as the problem of the kernel."""
    failed = ran["wrong"].failed[f"qual_wrong.py::{name}::test_declaration"]
    assert WRONG_MESSAGES[name] in failed
    problem = ran["wrong"].kernels[f"qual_wrong.py::{name}"]["problem"]
    assert WRONG_MESSAGES[name] in problem


def test_other_specs_of_the_file_go_on(ran: Runs) -> None:
    """So do the other files; nothing else fails."""
    wrong = ran["wrong"]
    assert wrong.status == 1
    assert wrong.passed == {
        "qual_wrong.py::good::test_candidates[n10]",
        "qual_wrong.py::shadowed::test_candidates[n10]",
        "qual_wrong.py::odd_id::test_candidates[n10-a_b_c_d_]",
        "qual_wrong.py::last::test_candidates[n10]",
        "qual_zz_twin.py::other::test_candidates[n10]",
    }
    assert len(wrong.failed) == len(WRONG_MESSAGES) + 1
    assert "INTERNALERROR" not in wrong.output
    assert "fault of the tool" not in wrong.output


def test_two_specs_of_one_name_in_two_files(ran: Runs) -> None:
    """The second one fails and says where the first is."""
    assert ran["wrong"].failed["qual_zz_twin.py::good::test_declaration"] == (
        "Failed: two specs are called 'good': here and in qual_wrong.py; rename one"
    )


def test_run_of_the_kinds_reports_every_case(ran: Runs) -> None:
    """Nine kernels of two cases each."""
    finished: Ran = ran["kinds"]
    assert len(finished.passed) == 18
    assert finished.report["complete"] is True
