"""Two reports of one tree held against each other: what changed under another compiler."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_samples import ENVIRONMENT, candidate, case, kernel, kernels
from scenarios import OPS, runs

from pytest_kernelqual.cli import main
from pytest_kernelqual.model.outcome import Evidence
from pytest_kernelqual.model.record import CaseRecord, Document, Environment, FixedRecord
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord
from pytest_kernelqual.report.document import build, encode, write
from pytest_kernelqual.report.drift import Comparison, compare
from pytest_kernelqual.report.drift_text import comparison_text
from pytest_kernelqual.report.pairing import Changes

SPEC = """
    from ops import double, double_kernel
    from pytest_kernelqual import Case, grid, kernel_spec

    @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32, 128]), cases=[Case(n=100), Case(n=64)])
    def doubled(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda: double(x)

    @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32]), cases=[Case(n=7)])
    def zeros_doubled(case, seeded):
        x = seeded.zeros((case.n,), name="x")
        return lambda: double(x)
"""
# Another compiler's stand-in: another fixed result, and one config that is wrong where its block is not full.
OTHER = OPS.replace("value + value", "tl.where((BLOCK == 32) & (n == 100), value, value * 3)")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Return the reports of real runs: twice of one tree, then of the other, then with another seed."""
    with runs(tmp_path_factory.mktemp("toolchains")) as started:
        started.start("one", {"ops.py": OPS, "qual_ops.py": SPEC}, "qual_ops.py")
        started.start("again", {"ops.py": OPS, "qual_ops.py": SPEC}, "qual_ops.py")
        started.start("other", {"ops.py": OTHER, "qual_ops.py": SPEC}, "qual_ops.py")
        started.start("seeded", {"ops.py": OPS, "qual_ops.py": SPEC}, "qual_ops.py", "--kernelqual-seed=1")
        yield {
            name: started[name].folder / "qualified-configurations.json" for name in ("one", "again", "other", "seeded")
        }


def command(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run the command and return its exit status and what it printed."""
    status = main(["compare-toolchains", *map(str, arguments)])
    return status, capsys.readouterr().out


def test_two_runs_of_one_tree_differ_in_nothing(reports: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Times, dates and folders are no change."""
    status, text = command(reports["one"], reports["again"], capsys=capsys)
    assert status == 0
    assert text == "toolchain: the same\nbytes of fixed launches: 3 same\n\nnothing changed\n"


def test_other_bytes_and_outcomes_are_told_by_case(
    reports: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Zeros stay zeros whatever they are multiplied by, so that one case keeps its bytes."""
    status, text = command(reports["one"], reports["other"], capsys=capsys)
    assert status == 1
    assert "bytes of fixed launches: 2 changed, 1 same\n" in text
    assert "other bytes of the fixed launch (2)\n  doubled[n100]\n  doubled[n64]\n" in text
    assert "  doubled[n100] BLOCK=32: outcome qualified -> mismatch, evidence interpreted -> none\n" in text
    assert "zeros_doubled" not in text


def test_json_holds_all_of_it(reports: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """For scripts; pairs are the value of the first and of the second report."""
    status, text = command(reports["one"], reports["other"], "--format", "json", capsys=capsys)
    told = json.loads(text)
    assert status == 1
    assert told["schema"] == "kernelqual/toolchain-comparison/1"
    assert told["fixed_bytes"] == {"changed": 2, "same": 1}
    assert told["environment"] == {}
    assert [(one["case"], one["fixed_bytes"]) for one in told["cases"]] == [("n100", "changed"), ("n64", "changed")]
    assert told["cases"][0]["candidates"] == {
        "BLOCK=32": {"outcome": ["qualified", "mismatch"], "evidence": ["interpreted", None]}
    }


def test_bytes_of_other_inputs_are_not_compared(reports: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Another seed gives other outputs, which says nothing of the compiler; what was made without it still compares."""
    status, text = command(reports["one"], reports["seeded"], capsys=capsys)
    assert status == 1
    assert "toolchain: seed 0 -> 1\nbytes of fixed launches: 2 not comparable, 1 same\n" in text
    assert "bytes that cannot be compared (2)\n  doubled[n100]: the inputs are others\n" in text


def run_of(*cases: CaseRecord, **environment: Any) -> Document:
    """Return the report of one kernel on a GPU."""
    return build([kernel(*cases)], replace(ENVIRONMENT, **environment), [])


def gave(output: str | None, **more: Any) -> FixedRecord:
    """Return a fixed launch with this output."""
    return FixedRecord(outcome="qualified" if output else "fault", output=output, inputs="sha256:in", **more)


def test_resources_are_shown_and_do_not_fail() -> None:
    """A new compiler uses other registers as a rule; only bytes, outcomes, evidence and order are at stake."""
    one = run_of(case(candidate("a", resources={"registers": 32, "spills": 0}), candidate("b"), fixed=gave("x")))
    other = run_of(
        case(candidate("a", resources={"registers": 40, "spills": 0}), candidate("b"), fixed=gave("x")),
        triton="3.9.0",
    )
    found = compare(one, other)
    assert not found.differs
    assert found.environment == {"triton": ("3.7.1", "3.9.0")}
    text = comparison_text(found)
    assert text.startswith("toolchain: triton 3.7.1 -> 3.9.0\nbytes of fixed launches: 1 same\n")
    assert text.endswith("candidates: resources (1)\n  rms_norm_fwd[rows3-cols515-float16] a: registers 32 -> 40")


def test_resources_of_the_fixed_launch_are_shown_like_those_of_candidates() -> None:
    """They stand apart from what makes it another fixed launch."""
    one, other = (run_of(case(fixed=gave("x", resources={"registers": count}))) for count in (32, 40))
    found = compare(one, other)
    assert not found.differs
    assert found.cases[0].fixed == {"registers": (32, 40)}
    text = comparison_text(found)
    assert text.endswith("fixed launches: resources (1)\n  rms_norm_fwd[rows3-cols515-float16]: registers 32 -> 40")
    assert "other fixed launch" not in text


def on_target(*launches: TargetLaunch, target: str = "cuda:sm_100") -> CaseRecord:
    """Return a case that was compiled for a target."""
    ids = [launch.id for launch in launches if launch.id != "fixed"]
    record = TargetRecord(target=target, shared_limit_bytes=1024, launches=list(launches))
    return case(*map(candidate, ids), fixed=gave("x"), targets=[record])


def fits(id_: str, registers: int, evidence: Evidence | None = None) -> TargetLaunch:
    """Return a launch that fits."""
    return TargetLaunch(id=id_, outcome="fits", resources={"registers": registers}, evidence=evidence)


def test_compile_targets_are_compared() -> None:
    """Outcome, evidence and resources of every launch; the first two are a difference."""
    reason = "shared memory: 99 required, 64 allowed"
    refused = TargetLaunch(id="c", outcome="out_of_resources", reason=reason, resources={"registers": 90})
    one = run_of(on_target(fits("fixed", 32), fits("a", 32, "identical_order"), fits("b", 32), fits("c", 80)))
    other = run_of(on_target(fits("fixed", 40), fits("a", 32), fits("b", 40), refused))
    found = compare(one, other)
    assert found.differs
    assert found.cases[0].targets == {
        "cuda:sm_100": {
            "a": {"evidence": ("identical_order", None)},
            "b": {"registers": (32, 40)},
            "c": {"outcome": ("fits", "out_of_resources"), "registers": (80, 90)},
            "fixed": {"registers": (32, 40)},
        }
    }
    where = "  rms_norm_fwd[rows3-cols515-float16]"
    assert comparison_text(found).endswith(
        f"""\
compile targets: another outcome (1)
{where} c on cuda:sm_100: outcome fits -> out_of_resources, registers 80 -> 90

compile targets: evidence (1)
{where} a on cuda:sm_100: evidence identical_order -> none

compile targets: resources (1)
{where} b and 1 more on cuda:sm_100: registers 32 -> 40"""
    )


def test_other_resources_on_a_target_are_no_difference() -> None:
    """As on a device."""
    found = compare(run_of(on_target(fits("fixed", 32))), run_of(on_target(fits("fixed", 40))))
    assert not found.differs
    assert "fixed launch on cuda:sm_100: registers 32 -> 40" in comparison_text(found)


def test_a_compile_target_that_one_report_lacks_is_listed() -> None:
    """With its case, as a candidate is."""
    found = compare(run_of(on_target(fits("fixed", 32))), run_of(on_target(fits("fixed", 32), target="hip:gfx942")))
    assert found.differs
    name = "kernels/qual_rms_norm_fwd.py::rms_norm_fwd rows3-cols515-float16"
    assert (found.only_in_a, found.only_in_b) == ([f"{name} on cuda:sm_100"], [f"{name} on hip:gfx942"])


def test_another_arithmetic_order_is_a_change() -> None:
    """Even where the bytes of these inputs are the same; where one report has none, nothing is said of it."""
    first, second = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
    one = run_of(case(candidate("a", order=first), candidate("b", order=first), fixed=gave("x", order=first)))
    other = run_of(case(candidate("a", order=second), candidate("b"), fixed=gave("x", order=second)))
    found = compare(one, other)
    assert found.differs
    assert found.cases[0].fixed == {"order": (first, second)}
    assert found.cases[0].candidates == {"a": {"order": (first, second)}}
    assert "a: order sha256:11111111... -> sha256:22222222..." in comparison_text(found)


def test_equal_changes_of_a_kernel_share_a_line() -> None:
    """A space of many configs stays readable, and a long report ends."""
    many = [case(*(candidate(f"c{i}") for i in range(50)), id_=f"case{n}", fixed=gave("x")) for n in range(60)]
    spent = [
        case(*(candidate(f"c{i}", "not_run", reason="budget") for i in range(50)), id_=f"case{n}", fixed=gave("x"))
        for n in range(60)
    ]
    text = comparison_text(compare(run_of(*many), run_of(*spent)))
    line = "  rms_norm_fwd[case0 and 59 more] c0 and 49 more: outcome qualified -> not_run, evidence "
    assert f"candidates with another outcome (1)\n{line}" in text
    told = comparison_text(
        compare(
            run_of(*(replace(one, fixed=gave(f"{n}")) for n, one in enumerate(many))),
            run_of(*(replace(one, fixed=gave("x")) for one in many)),
        )
    )
    assert "other bytes of the fixed launch (60)\n" in told
    assert told.endswith("  and 20 more; --format json lists them all")


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (run_of(case(fixed=gave("x"))), run_of(case(fixed=gave(None))), "no output of the fixed launch"),
        (
            run_of(case(fixed=gave("x"))),
            run_of(case(fixed=gave("y")), device=replace(ENVIRONMENT.device, name="NVIDIA B200")),
            "of other devices",
        ),
        (run_of(case(fixed=gave("x"))), build([kernel(case(fixed=gave("y")))], None, []), "on which device it ran"),
    ],
    ids=["no output", "another device", "no device"],
)
def test_bytes_that_say_nothing_are_not_called_changed(one: Document, other: Document, told: str) -> None:
    """Neither are they called the same, and the comparison does not end well."""
    found = compare(one, other)
    assert found.fixed_bytes == {"not_comparable": 1}
    assert found.differs
    assert told in comparison_text(found)


def test_what_one_report_lacks_is_listed() -> None:
    """A kernel, a case or a candidate that went away is a change too, and so is a file that no longer imports."""
    one = build([kernel(case(candidate("a"), candidate("b"))), kernel(name="gone")], ENVIRONMENT, [])
    other = build([kernel(case(candidate("a")), case(id_="new"), problem="ImportError: x\nmore")], ENVIRONMENT, [])
    text = comparison_text(compare(one, other))
    nodeid = "kernels/qual_rms_norm_fwd.py::rms_norm_fwd"
    assert f"only in the first report (2)\n  kernels/qual_gone.py::gone\n  {nodeid} rows3-cols515-float16 b\n" in text
    assert f"only in the second report (1)\n  {nodeid} new" in text
    assert f"kernels that could not be run (1)\n  {nodeid}: none -> ImportError: x\n" in text


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"schema": "kernelqual/qualified-configurations/2"}', b"\xff\xfe", b'{"a": 1, "a": 2}', None],
)
def test_unusable_report_is_one_line_and_exit_2(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """On either side."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    write(good, encode(run_of(case())))
    if content is not None:
        bad.write_bytes(content)
    for pair in ([good, bad], [bad, good]):
        assert main(["compare-toolchains", *map(str, pair)]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("kernelqual: error: ")
        assert told.err.count("\n") == 1


_reports = st.builds(
    lambda records, environment: build(records, environment, []),
    kernels,
    st.none()
    | st.builds(
        lambda name, triton: replace(ENVIRONMENT, device=replace(ENVIRONMENT.device, name=name), triton=triton),
        st.sampled_from("ab"),
        st.text(max_size=2),
    ),
)


@settings(deadline=None)
@given(_reports)
def test_a_report_differs_from_itself_in_nothing(report: Document) -> None:
    """Whatever it holds."""
    found = compare(report, report)
    assert not found.differs
    changed = (found.environment, found.cases, found.problems, found.only_in_a, found.only_in_b)
    assert not any(changed)


@settings(deadline=None)
@given(one=_reports, other=_reports, related=st.booleans())
def test_swapping_the_reports_mirrors_the_comparison(one: Document, other: Document, *, related: bool) -> None:
    """No side is the better one."""
    if related:  # two reports drawn alone have next to nothing in common
        other = build([*other.kernels, *one.kernels[1:]], other.environment, [])
    found = compare(one, other)
    assert mirrored(found) == compare(other, one)
    assert found.differs is compare(other, one).differs
    assert comparison_text(found).isascii()


def mirrored(found: Comparison) -> Comparison:
    """Return the comparison with its sides swapped."""

    def swap(changes: Changes) -> Changes:
        return {name: (b, a) for name, (a, b) in changes.items()}

    return replace(
        found,
        digests=(found.digests[1], found.digests[0]),
        environment=swap(found.environment),
        problems=swap(found.problems),
        only_in_a=found.only_in_b,
        only_in_b=found.only_in_a,
        cases=[
            replace(
                one,
                fixed=swap(one.fixed),
                candidates={name: swap(changes) for name, changes in one.candidates.items()},
                targets={
                    target: {name: swap(changes) for name, changes in found.items()}
                    for target, found in one.targets.items()
                },
            )
            for one in found.cases
        ],
    )


def test_an_environment_is_compared_field_by_field() -> None:
    """Every version that a report holds counts as part of the toolchain; what the tool did and when does not."""
    named = {name for name in Environment.__struct_fields__ if isinstance(getattr(ENVIRONMENT, name), str)}
    other = replace(ENVIRONMENT, **dict.fromkeys(named, "other"))
    found = compare(build([], ENVIRONMENT, []), build([], other, []))
    assert set(found.environment) == named - {"started_at", "provocation", "disturbance_checks"}
