"""`kernelqual diff`, as a reviewer or a workflow runs it: what changed, and whether it got worse."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_commands import OTHER_DEVICE, Done, bad_reports, command, gate, row, stored
from report_samples import ENVIRONMENT, NODEID, candidate, case, kernel, kernels, mismatching
from scenarios import OPS, runs

from pytest_kernelqual.model.record import DeclaredItem, FixedRecord, KernelRecord
from pytest_kernelqual.model.target_record import CompiledCase, CompiledRows, TargetLaunch, TargetRecord
from pytest_kernelqual.report.change import KINDS, WORSE, Diff
from pytest_kernelqual.report.changes import changes
from pytest_kernelqual.report.document import build, encode, read, write
from pytest_kernelqual.report.named import Named

SPEC = """
    from ops import double, double_kernel
    from pytest_kernelqual import Case, grid, kernel_spec

    @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32, 128]), cases=[Case(n=100), Case(n=64)])
    def doubled(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda: double(x)
"""
# One config is wrong where its block is not full, and production gives other bytes.
CHANGED = OPS.replace("value + value", "tl.where((BLOCK == 32) & (n == 100), value, value * 3)")

GOOD = case(candidate("a"), candidate("b"))
FIXED = FixedRecord(outcome="qualified", config={"num_warps": 4}, output="sha256:1", inputs="sha256:2")


def run_diff(
    tmp_path: Path, base: list[KernelRecord], head: list[KernelRecord], *arguments: object, **environments: Any
) -> Done:
    """Compare two reports in a process of its own."""
    one = stored(tmp_path / "base.json", base, environments.get("base_on", ENVIRONMENT))
    other = stored(tmp_path / "head.json", head, environments.get("head_on", ENVIRONMENT))
    return command("diff", one, other, *arguments)


def kinds(done: Done) -> dict[str, int]:
    """Return the kinds of changes that `--format json` counts."""
    found: dict[str, int] = json.loads(done.stdout)["counts"]
    return found


def with_rows(*rows: Any, cases: Any = (GOOD,)) -> list[KernelRecord]:
    """Return one kernel with committed rows."""
    return [kernel(*cases, committed=list(rows))]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Return the reports of real runs of two trees."""
    with runs(tmp_path_factory.mktemp("trees")) as started:
        started.start("base", {"ops.py": OPS, "qual_ops.py": SPEC}, "qual_ops.py")
        started.start("head", {"ops.py": CHANGED, "qual_ops.py": SPEC}, "qual_ops.py")
        base, head = (started[name].folder / "qualified-configurations.json" for name in ("base", "head"))
        yield base, head


def test_real_runs_of_two_trees(reports: tuple[Path, Path]) -> None:
    """The verdict comes first, then what is worse, then the rest."""
    done = command("diff", *reports)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "worse: 1 disqualified; also 2 with other production bytes"
    assert lines.index("disqualified (1)") < lines.index("other bytes of production's own launch (2)")
    assert any(line.startswith("  doubled[n100] BLOCK=32: qualified -> mismatch: ") for line in lines)
    assert "  doubled[n100 and 1 more] fixed launch: on the same inputs" in lines


def test_a_report_against_itself(reports: tuple[Path, Path]) -> None:
    """Nothing changed, and that is not worse."""
    done = command("diff", reports[1], reports[1])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "nothing changed\nBASE is incomplete (paths were given: qual_ops.py): what it lacks may be there\n"
        "HEAD is incomplete (paths were given: qual_ops.py): what it lacks counts as not run\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "kind", "told"),
    [
        (
            candidate("a"),
            mismatching("a"),
            "disqualified",
            "rms_norm_fwd[rows3-cols515-float16] a: qualified -> mismatch: 12 of",
        ),
        (
            candidate("a"),
            candidate("a", "out_of_resources", reason="shared memory"),
            "out_of_resources",
            "shared memory",
        ),
        (
            candidate("a"),
            candidate("a", "compile_error", reason="no"),
            "disqualified",
            "qualified -> compile_error: no",
        ),
        (
            candidate("a"),
            candidate("a", "not_run", reason="not reached"),
            "not_run",
            "qualified -> not_run: not reached",
        ),
        (
            candidate("a"),
            candidate("a", evidence="within_tolerance"),
            "lost_evidence",
            "identical_bytes -> within_toler",
        ),
        (
            candidate("a"),
            candidate("a", "within_tolerance", evidence="within_tolerance", reason="1 ULP"),
            "lost_evidence",
            "qualified -> within_tolerance: 1 ULP",
        ),
        (
            candidate("a", batch_invariant=True),
            candidate("a", batch_invariant=False, batch_note="row 3"),
            "lost_evidence",
            "batch invariant -> not batch invariant: row 3",
        ),
    ],
)
def test_what_became_worse_of_a_candidate(tmp_path: Path, before: Any, after: Any, kind: str, told: str) -> None:
    """Told with its reason, fails by default, and the other way round it is better."""
    base, head = [kernel(case(candidate("b"), before))], [kernel(case(candidate("b"), after))]
    done = run_diff(tmp_path, base, head)
    assert done.returncode == 1
    assert f"  {told}" in done.stdout or told in done.stdout
    found = command("diff", tmp_path / "base.json", tmp_path / "head.json", "--format", "json")
    assert kinds(found) == {kind: 1}
    back = command("diff", tmp_path / "head.json", tmp_path / "base.json", "--format", "json")
    assert back.returncode == 0
    assert [*kinds(back)] == ["gained_evidence" if kind == "lost_evidence" else "newly_qualified"]


def test_fixed_launch_speaks_for_its_candidates(tmp_path: Path) -> None:
    """Without a reference each of them is `not_run`, which one line tells."""
    lost = FixedRecord(outcome="nondeterministic", reason="differs from itself")
    gone = [candidate(name, "not_run", reason="no baseline") for name in ("a", "b")]
    done = run_diff(tmp_path, [kernel(GOOD)], [kernel(case(*gone, fixed=lost))])
    assert done.returncode == 1
    assert done.stdout == (
        "worse: 1 disqualified\n\ndisqualified (1)\n"
        "  rms_norm_fwd[rows3-cols515-float16] fixed launch: qualified -> nondeterministic: differs from itself\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        # Slower is what the smallest estimate of all processes says.
        (row(gate(0.80)), row(gate(0.90, 0.89, 0.91)), {"slower": 1}),
        (row(gate(0.80)), row(gate(0.90, 0.81, 0.91)), {}),
        (row(gate(0.90, 0.89, 0.91)), row(gate(0.80)), {"faster": 1}),
        (row(gate(0.80, 0.88, 0.80)), row(gate(0.90)), {}),
        # Bounds that overlap tell nothing.
        (row(gate(0.80)), row(gate(0.90, ratio=[0.90, 0.79, 1.02])), {}),
        # Twice as long on both arms is another machine's clock.
        (row(gate(0.80)), row(gate(0.80, fixed_us=40.0)), {}),
        # A launch that begins 0.3 us later takes 8 % off the ratio of 2.1 us and 1.3 us.
        (row(gate(1.3 / 2.1, fixed_us=2.1)), row(gate(1.6 / 2.4, fixed_us=2.4)), {}),
        # Another way of timing is another question.
        (row(gate(0.80)), row(gate(0.90, cache="warm")), {}),
        (row(gate(0.80)), row(gate(0.90, name="near_best")), {}),
        (row(gate(0.80)), row(gate(0.90, ratio=[])), {}),
        (row(gate(0.80)), row(gate(0.90, time_us=[0.0, 0.0])), {}),
        # The decay gate knew better.
        (
            row(gate(0.80)),
            row(gate(0.90), gate(0.90, name="decay", reason="baseline moved: the fixed launch became faster")),
            {"baseline_moved": 1},
        ),
        (row(gate(0.80)), row(gate(1.04), verdict="slower_than_fixed"), {"slower": 1}),
        (row(gate(0.80)), row(verdict="stale", reasons=["the kernel changed"]), {"failing_row": 1}),
        (row(gate(0.80)), row(verdict="missing", config=None), {"dropped_row": 1}),
        (row(gate(0.80)), row(verdict="bad_file", config=None), {"failing_row": 1}),
        (row(gate(0.80)), row(gate(0.80), verdict="inconclusive"), {"other_verdict": 1}),
        (row(gate(0.80)), row(gate(0.80), config={"num_warps": 4}), {"retuned": 1}),
        (row(gate(0.80)), row(gate(0.80), production="changed"), {"production_bytes": 1}),
        (row(verdict="stale"), row(gate(0.80)), {"passing_row": 1}),
        (row(verdict="missing", config=None), row(gate(0.80)), {"passing_row": 1, "added_row": 1}),
    ],
)
def test_what_changed_of_a_committed_config(tmp_path: Path, before: Any, after: Any, found: dict[str, int]) -> None:
    """Ratios decide about speed, as the gates take them; verdicts and configs are told."""
    done = run_diff(tmp_path, with_rows(before), with_rows(after), "--format", "json")
    assert kinds(done) == found
    assert done.returncode == (1 if found.keys() & {*WORSE} else 0)


def test_ratios_to_another_fixed_launch_are_not_compared(tmp_path: Path) -> None:
    """Production's new config is told instead."""
    other = replace(FIXED, config={"num_warps": 8})
    base = with_rows(row(gate(0.80)), cases=[case(candidate("a"), fixed=FIXED)])
    head = with_rows(row(gate(0.95)), cases=[case(candidate("a"), fixed=other)])
    done = run_diff(tmp_path, base, head)
    assert done.returncode == 0
    assert "production launches another config (1)\n" in done.stdout
    assert "[rows3-cols515-float16] fixed launch: num_warps=4 -> num_warps=8\n" in done.stdout


def test_margin_is_an_option(tmp_path: Path) -> None:
    """In percent."""
    done = run_diff(tmp_path, with_rows(row(gate(0.80))), with_rows(row(gate(0.82))), "--margin", "1")
    assert done.returncode == 1
    assert (
        "slower (1)\n  rms_norm_fwd cols515 on nvidia_h200: 0.800 -> 0.820: time of one launch, committed"
        in done.stdout
    )


def test_kernels_cases_candidates_and_rows_that_come_and_go(tmp_path: Path) -> None:
    """Less coverage is worse, more is not."""
    small = [kernel(case(candidate("a")))]
    large = [
        kernel(case(candidate("a"), candidate("b")), case(candidate("a"), id_="second"), committed=[row(gate(0.8))]),
        kernel(case(candidate("a")), name="softmax"),
    ]
    done = run_diff(tmp_path, large, small, "--format", "json")
    assert done.returncode == 1
    assert kinds(done) == {"dropped_kernel": 1, "dropped_case": 1, "dropped_row": 1, "dropped_candidate": 1}
    back = command("diff", tmp_path / "head.json", tmp_path / "base.json", "--format", "json")
    assert back.returncode == 0
    assert kinds(back) == {"added_kernel": 1, "added_case": 1, "added_row": 1, "added_candidate": 1}


def test_base_without_the_kernel_still_tells_what_fails_in_it(tmp_path: Path) -> None:
    """A new kernel is no error, and new failures are worse."""
    new = kernel(
        case(candidate("a"), mismatching("b")), name="softmax", committed=[row(verdict="missing", config=None)]
    )
    done = run_diff(tmp_path, [kernel(GOOD)], [kernel(GOOD), new])
    assert done.returncode == 1
    assert done.stdout.startswith("worse: 1 failing case, 1 failing row; also 1 added kernel\n")
    assert "new kernels (1)\n  softmax: 1 case, 1 committed row\n" in done.stdout


def test_kernel_that_cannot_run_any_more(tmp_path: Path) -> None:
    """Its last line says why."""
    broken = kernel(problem="Traceback\n  ...\nImportError: no name 'x'\n")
    done = run_diff(tmp_path, [kernel(GOOD)], [broken])
    assert done.returncode == 1
    assert "can run any more (1)\n  rms_norm_fwd: ImportError: no name 'x'\n" in done.stdout
    assert kinds(command("diff", tmp_path / "head.json", tmp_path / "base.json", "--format", "json")) == {
        "repaired_kernel": 1,
        "added_case": 1,
    }


def test_file_that_does_not_import_any_more(tmp_path: Path) -> None:
    """Its kernels are broken and not dropped, even where nothing else is left to compare."""
    problem = "cannot import qual_rms_norm_fwd.py: ImportError: no x\nTraceback\nImportError: no x\n"
    nodeid = "kernels/qual_rms_norm_fwd.py::declaration"
    file = KernelRecord(kernel="qual_rms_norm_fwd", nodeid=nodeid, problem=problem)
    done = run_diff(tmp_path, [kernel(GOOD)], [file])
    assert done.returncode == 1
    assert done.stdout.startswith("worse: 2 broken kernels\n")
    assert "  rms_norm_fwd: ImportError: no x\n" in done.stdout
    back = command("diff", tmp_path / "head.json", tmp_path / "base.json", "--format", "json")
    assert (back.returncode, kinds(back)) == (0, {"repaired_kernel": 1, "added_kernel": 1})


def test_kernel_that_moved_is_the_same_kernel(tmp_path: Path) -> None:
    """Found by its name."""
    moved = replace(kernel(case(candidate("a"), mismatching("b"))), nodeid="kernels/new/qual_norms.py::rms_norm_fwd")
    done = run_diff(tmp_path, [kernel(GOOD)], [moved], "--format", "json")
    assert kinds(done) == {"disqualified": 1, "moved_kernel": 1}


def test_what_a_narrowed_head_left_out_is_not_run(tmp_path: Path) -> None:
    """Not dropped, and not passed in silence."""
    kept, left = case(candidate("a")), case(candidate("a"), id_="second", nodeid=NODEID.replace("rows3", "rows4"))
    stored(tmp_path / "base.json", [kernel(kept, left)])
    document = build([kernel(kept)], ENVIRONMENT, [NODEID, left.nodeid], ["1 of 2 items were deselected"])
    items = [
        DeclaredItem(nodeid=one.nodeid, kernel=kernel().nodeid, place=(0, number), selected=one is kept)
        for number, one in enumerate((kept, left))
    ]
    write(tmp_path / "head.json", encode(replace(document, items=items, narrowed={"deselected": "1 of 2"})))
    done = command("diff", tmp_path / "base.json", tmp_path / "head.json")
    assert done.returncode == 1
    assert done.stdout == (
        "worse: 1 not run\n"
        "HEAD is incomplete (1 of 2 items were deselected): what it declares and lacks is not run\n\n"
        "not run (1)\n  rms_norm_fwd[second]\n"
    )


def test_file_in_which_nothing_is_wrong_any_more(tmp_path: Path) -> None:
    """It has no record then."""
    nodeid = "committed_configs/gone/nvidia_h200.json::file"
    finding = row(verdict="orphan", nodeid=nodeid, config=None)
    file = KernelRecord(kernel="gone", nodeid=nodeid, committed=[finding])
    done = run_diff(tmp_path, [kernel(GOOD), file], [kernel(GOOD)], "--format", "json")
    assert (done.returncode, kinds(done)) == (0, {"passing_row": 1})
    back = command("diff", tmp_path / "head.json", tmp_path / "base.json", "--format", "json")
    assert (back.returncode, kinds(back)) == (1, {"failing_row": 1})


def test_compile_targets_are_compared(tmp_path: Path) -> None:
    """On whatever device the runs were: nothing is launched there."""

    def on_target(outcome: Any) -> list[KernelRecord]:
        launch = TargetLaunch(id="a", outcome=outcome, reason="tensor memory" if outcome != "fits" else "")
        target = TargetRecord(target="cuda:100", shared_limit_bytes=1, launches=[launch])
        return [kernel(case(candidate("a"), targets=[target]))]

    done = run_diff(tmp_path, on_target("fits"), on_target("out_of_resources"), "--fail-on=out_of_resources")
    assert done.returncode == 1
    assert "a on cuda:100: fits -> out_of_resources: tensor memory" in done.stdout


def test_committed_rows_on_devices_that_are_not_there_are_compared(tmp_path: Path) -> None:
    """They are compiled in what time there is: what a run had no time for is no change."""

    def on_targets(**outcomes: Any) -> Path:
        launches = [TargetLaunch(id=name, outcome=outcome, reason="a reason") for name, outcome in outcomes.items()]
        targets = [TargetRecord(target="cuda:100", shared_limit_bytes=1, launches=launches)]
        rows = CompiledRows(
            kernel="rms_norm_fwd",
            nodeid="committed_configs/rms_norm_fwd/nvidia_b200.json::file",
            device="NVIDIA B200",
            target="cuda:100",
            cases=[CompiledCase(id="second", key={"cols": 515}, targets=targets)],
        )
        path = tmp_path / f"{'-'.join(outcomes.values())}.json"
        write(path, encode(replace(build([kernel(GOOD)], ENVIRONMENT, []), compiled_rows=[rows])))
        return path

    base = on_targets(a="fits", b="fits", fixed="unknown")
    done = command("diff", base, on_targets(a="out_of_resources", b="unknown", fixed="fits"))
    assert done.returncode == 1
    assert done.stdout == (
        "worse: 1 out of resources\n\nout of resources (1)\n"
        "  rms_norm_fwd[second] a on cuda:100: fits -> out_of_resources: a reason\n"
    )
    assert command("diff", base, base).stdout == "nothing changed\n"


def test_reports_of_other_devices(tmp_path: Path) -> None:
    """Only what is declared is compared, which is said, and is no pass by default."""
    base = with_rows(row(gate(0.8)))
    head = with_rows(
        row(gate(1.5), verdict="slower_than_fixed", config={"num_warps": 4}), cases=[case(mismatching("b"))]
    )
    done = run_diff(tmp_path, base, head, head_on=OTHER_DEVICE)
    assert done.returncode == 1
    assert done.stdout.startswith("worse: 1 not comparable; also 1 re-tuned, 1 dropped candidate\n")
    assert "BASE ran on NVIDIA H200 (cuda, sm_90), HEAD on NVIDIA B200 (cuda, sm_100): only what is" in done.stdout
    allowed = command("diff", tmp_path / "base.json", tmp_path / "head.json", "--fail-on", "slower,dropped_row")
    assert allowed.returncode == 0


def test_fail_on_says_what_is_worse(tmp_path: Path) -> None:
    """It replaces the default; `nothing` only shows."""
    base = [kernel(case(candidate("a"), fixed=FIXED))]
    head = [kernel(case(mismatching("a"), candidate("b"), fixed=replace(FIXED, output="sha256:3")))]
    expected = {"disqualified": 1, "production_bytes": 1, "slower": 0, "nothing": 0, "slower,added_candidate": 1}
    run_diff(tmp_path, base, head)
    for fail_on, status in expected.items():
        done = command("diff", tmp_path / "base.json", tmp_path / "head.json", "--fail-on", fail_on)
        assert done.returncode == status, fail_on
        assert done.stdout.startswith("worse: " if status else "not worse: ")


def test_help_tells_exit_statuses_and_kinds() -> None:
    """Conventional."""
    told = command("diff", "--help").stdout
    assert "exit status:\n  0  HEAD is not worse\n  1  " in told
    assert all(kind in told.replace("\n", " ") for kind in KINDS)


@pytest.mark.parametrize("place", [0, 1])
def test_bad_reports_get_one_line_each(tmp_path: Path, place: int) -> None:
    """As BASE and as HEAD; exit status 2, and nothing on standard output."""
    bad = bad_reports(tmp_path)
    empty, strangers = (
        stored(tmp_path / f"{name}.json", records)
        for name, records in (("empty", []), ("strangers", [kernel(GOOD, name="softmax")]))
    )
    bad["no kernels"] = empty, "holds no kernels, so that there is nothing to compare; run again"
    bad["no kernel in common"] = strangers, "the reports have no kernel in common: "
    for name, (path, told) in bad.items():
        both: list[object] = [tmp_path / "good.json", tmp_path / "good.json"]
        both[place] = path
        done = command("diff", *both)
        assert (done.returncode, done.stdout) == (2, ""), name
        assert done.stderr.startswith("kernelqual: error: "), name
        assert told in done.stderr, name
        assert done.stderr.count("\n") == 1, name


def test_both_bad_reports_are_told(tmp_path: Path) -> None:
    """One line for each."""
    done = command("diff", tmp_path / "one.json", tmp_path / "other.json")
    assert done.returncode == 2
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["kernelqual"] * 2


@pytest.mark.parametrize(
    "arguments", [("--fail-on", "slowest"), ("--fail-on", ""), ("--margin", "-1"), ("--margin", "x")]
)
def test_wrong_options(tmp_path: Path, arguments: tuple[str, str]) -> None:
    """What was given is shown."""
    done = run_diff(tmp_path, [kernel(GOOD)], [kernel(GOOD)], *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{arguments[1]!a} is no " in done.stderr


def between(base: list[KernelRecord], head: list[KernelRecord]) -> Diff:
    """Compare two runs."""
    return changes(Named("a", build(base, ENVIRONMENT, [])), Named("b", build(head, ENVIRONMENT, [])))


@settings(deadline=None)
@given(kernels.filter(bool))
def test_no_run_differs_from_itself(records: list[KernelRecord]) -> None:
    """Whatever it holds."""
    found = between(records, records)
    assert not found.changes
    assert not found.worse


@settings(deadline=None)
@given(kernels, st.randoms())
def test_order_is_no_change(records: list[KernelRecord], random: Random) -> None:
    """Of kernels, cases and candidates, where their names are their own."""
    named = [
        replace(
            each,
            kernel=f"kernel {number}",
            nodeid=f"a.py::kernel {number}",
            cases=[
                replace(
                    one,
                    id=f"case {at}",
                    candidates=[replace(record, id=f"{place}") for place, record in enumerate(one.candidates)],
                )
                for at, one in enumerate(each.cases)
            ],
        )
        for number, each in enumerate([kernel(GOOD), *records])
    ]

    def shuffled(items: list[Any]) -> list[Any]:
        return random.sample(items, len(items))

    other = [
        replace(
            each,
            cases=[replace(one, candidates=shuffled(one.candidates)) for one in shuffled(each.cases)],
        )
        for each in shuffled(named)
    ]
    assert not between(named, other).changes


@settings(deadline=None)
@given(st.lists(kernels, min_size=2, max_size=2))
def test_what_comes_one_way_goes_the_other(both: list[list[KernelRecord]]) -> None:
    """Swapping the reports swaps what was dropped and what was added."""
    shared = kernel(GOOD)
    # Of a kernel that cannot run only that is told.
    one, other = ([shared, *(replace(each, problem="") for each in records)] for records in both)
    there, back = between(one, other).counts, between(other, one).counts
    for gone, came in (
        ("dropped_candidate", "added_candidate"),
        ("slower", "faster"),
        ("lost_evidence", "gained_evidence"),
    ):
        assert there.get(gone, 0) == back.get(came, 0)
    assert sum(there.get(kind, 0) for kind in ("moved_kernel", "retuned")) == sum(
        back.get(kind, 0) for kind in ("moved_kernel", "retuned")
    )


def test_report_of_before_there_were_shards_is_compared(tmp_path: Path) -> None:
    """An older report of the same schema lacks fields that came later."""
    path = stored(tmp_path / "old.json", [kernel(GOOD)])
    plain = json.loads(path.read_text())
    for name in ("items", "narrowed", "incomplete_because"):
        plain.pop(name)
    path.write_text(json.dumps(plain))
    assert read(path).items == []
    done = command("diff", path, stored(tmp_path / "new.json", [kernel(GOOD)]))
    assert (done.returncode, done.stdout) == (0, "nothing changed\n")


def test_folders_are_for_history(tmp_path: Path) -> None:
    """Alone, twice or beside a report; of one report alone it is said what is missing."""
    report = stored(tmp_path / "a.json", [kernel(case(candidate("a")))])
    for paths in ([tmp_path], [tmp_path, tmp_path], [report, tmp_path], [tmp_path, report]):
        done = command("diff", *paths)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"kernelqual: error: cannot read '{tmp_path}': it is a folder, and diff compares two reports, "
            f"BASE and HEAD; `kernelqual history {tmp_path}` tells how committed configs moved "
            "over all reports of a folder\n"
        )
    done = command("diff", report)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"only BASE '{report}' is given; give HEAD" in done.stderr
