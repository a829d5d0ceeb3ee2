"""Markdown and annotations of `kernelqual report` and `kernelqual diff`: what a reviewer sees on a pull request."""

import json
import re
from pathlib import Path

import pytest
from committed_samples import H200, changes
from committed_samples import row as committed_row
from report_commands import OTHER_DEVICE, command, gate, row, stored
from report_samples import ENVIRONMENT, candidate, case, kernel, mismatching
from scenarios import OPS, run_pytest, write

from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.model.record import KernelRecord

GOOD = kernel(case(candidate("a"), candidate("b")), committed=[row(gate(0.8))])
SLOW = row(gate(1.04), verdict="slower_than_fixed", reasons=["num_warps=8 is slower than fixed by 4.1 % or more"])
BAD = kernel(case(candidate("a"), mismatching("b")), committed=[SLOW])
MARKER = "<!-- kernelqual: report -->"


def many(number: int, *, bad: bool) -> list[KernelRecord]:
    """Return kernels with reasons of their own, so that nothing stands together."""
    return [
        kernel(
            case(candidate("a"), *([mismatching("b", differing=one)] if bad else [candidate("b")])),
            name=f"kernel_{one}",
            committed=[row(verdict="stale" if bad else "ok", reasons=[f"reason {one}"] if bad else [])],
        )
        for one in range(1, number + 1)
    ]


def test_report_that_passed(tmp_path: Path) -> None:
    """The verdict, the whole report collapsed, and the mark by which a comment is found again."""
    done = command("report", stored(tmp_path / "a.json", [GOOD]), "--format", "markdown")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "**kernelqual: passed**: 1 case, 2 candidate runs compared, 1 committed config; on `NVIDIA H200`"
    )
    assert lines[1:5] == ["", "<details>", "<summary>the whole report</summary>", ""]
    assert "committed configs: 1 rows: 1 ok" in lines
    assert lines[-1] == MARKER


def test_report_that_fails(tmp_path: Path) -> None:
    """What fails comes next, with its reason."""
    path = stored(
        tmp_path / "a.json", [BAD, kernel(name="broken", problem="ImportError: no x")], None, ["paths were given: x"]
    )
    done = command("report", path, "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout.split("\n<details>")[0] == (
        "**kernelqual: failing**: nothing ran of 1 kernel, 1 of 1 case fails, 1 of 1 committed config fails; "
        "no device answered; INCOMPLETE `paths were given: x`\n\n"
        "**kernels of which nothing ran (1)**\n\n- `broken`: `ImportError: no x`\n\n"
        "**failing candidates (1: 1 mismatch)**\n\n"
        "- `rms_norm_fwd[rows3-cols515-float16] b`: mismatch: `12 of 4096 elements differ, first at (3, 17): "
        "expected 1.5 got 1.25, max 1 ULP (rounding)`\n\n"
        "**committed configs that fail (1: 1 slower_than_fixed)**\n\n"
        "- `rms_norm_fwd cols515 on nvidia_h200`: slower_than_fixed: "
        "`num_warps=8 is slower than fixed by 4.1 % or more`\n"
    )


def test_reports_of_several_devices(tmp_path: Path) -> None:
    """One verdict for all, then each under its name."""
    one = stored(tmp_path / "h200.json", [GOOD])
    other = stored(tmp_path / "b200.json", [BAD], OTHER_DEVICE)
    done = command("report", one, other, "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout.startswith(f"**kernelqual: 1 of 2 reports fails**\n\n### `{one}`\n\n**kernelqual: passed**: ")
    assert f"\n### `{other}`\n\n**kernelqual: failing**: " in done.stdout
    assert done.stdout.count(MARKER) == 1


def test_with_a_base_only_what_changed_comes_first(tmp_path: Path) -> None:
    """Both verdicts, the changes, the rest collapsed; worse than BASE is a failure."""
    base = stored(tmp_path / "base.json", [GOOD])
    head = stored(tmp_path / "head.json", [kernel(*GOOD.cases, committed=[row(gate(0.9))])])
    done = command("report", head, "--base", base, "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout.split("\n<details>")[0] == (
        "**kernelqual: worse: 1 slower**\n\n"
        "**kernelqual: passed**: 1 case, 2 candidate runs compared, 1 committed config; on `NVIDIA H200`\n\n"
        "**slower (1)**\n\n"
        "- `rms_norm_fwd cols515 on nvidia_h200`: `0.800 -> 0.900`: `time of one launch, committed to fixed`\n"
    )
    loose = command("report", head, "--base", base, "--format", "markdown", "--fail-on", "nothing")
    assert (loose.returncode, loose.stdout[:33]) == (0, "**kernelqual: not worse: 1 slower")
    text = command("report", head, "--base", base)
    assert text.returncode == 1
    assert text.stdout.startswith("worse: 1 slower\n\nslower (1)\n")
    assert text.stdout.endswith(command("report", head).stdout)


def test_diff_as_markdown(tmp_path: Path) -> None:
    """The verdict, what differs of the machines, and the changes."""
    base = stored(tmp_path / "base.json", [GOOD])
    head = stored(tmp_path / "head.json", [GOOD], OTHER_DEVICE)
    done = command("diff", base, head, "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout == (
        "**kernelqual: worse: 1 not comparable**\n\n"
        "device and toolchain: `device.name NVIDIA H200 -> NVIDIA B200, device.architecture sm_90 -> sm_100, "
        "device.compute_units 132 -> 148`\n\n"
        "**not comparable (1)**\n\n"
        "- `BASE ran on NVIDIA H200 (cuda, sm_90), HEAD on NVIDIA B200 (cuda, sm_100): only what is declared, what is "
        "committed and compile targets are compared, no outcomes, evidence, bytes, verdicts or times`\n\n"
        f"{MARKER}\n"
    )


@pytest.mark.parametrize("limit", [65_536, 20_000, 2_500])
def test_long_reports_lose_detail_and_no_verdict(tmp_path: Path, limit: int) -> None:
    """Every kind of change keeps its line with its number, and what was left out is counted."""
    base = stored(tmp_path / "base.json", many(400, bad=False))
    head = stored(tmp_path / "head.json", many(400, bad=True))
    for arguments in (("report", head), ("report", head, "--base", base), ("diff", base, head)):
        done = command(*arguments, "--format", "markdown", "--limit", limit)
        assert done.returncode == 1
        text = done.stdout
        assert limit * 0.8 < len(text.encode()) <= limit, arguments
        told = ["disqualified (400)", "committed configs that fail now (400)"]
        if len(arguments) == 2:
            told = ["failing candidates (400: 400 mismatch)", "committed configs that fail (400: 400 stale)"]
        assert all(f"\n**{title}**\n" in text for title in told)
        left_out = [int(number) for number in re.findall(r"^- (\d+) more lines?$", text, flags=re.MULTILINE)]
        assert sum(left_out) > 100
        (total,) = re.findall(
            r"^\*([\d,]+) lines were left out to stay under ([\d,]+) characters;", text, flags=re.MULTILINE
        )
        assert total == (str(sum(left_out)), f"{limit:,}")
        assert text.count("<details>") == text.count("</details>")
        # Something of each kind is shown, before everything of the first is.
        if limit > 10_000:
            assert text.count("mismatch: `") + text.count("-> mismatch`") >= 10
            assert text.count("`reason ") >= 10


def test_whole_report_fits_a_step_summary(tmp_path: Path) -> None:
    """Nothing is left out there."""
    head = stored(tmp_path / "head.json", many(400, bad=True))
    text = command("report", head, "--format", "markdown", "--limit", 1 << 20).stdout
    assert "left out" not in text
    assert text.count("`reason ") == 400


def test_limit_that_no_verdict_fits(tmp_path: Path) -> None:
    """An error that names what is needed."""
    path = stored(tmp_path / "a.json", [BAD])
    done = command("report", path, "--format", "markdown", "--limit", 100, "-o", tmp_path / "out.md")
    assert (done.returncode, done.stdout) == (2, "")
    needed = re.fullmatch(
        r"kernelqual: error: 100 characters are too few for the verdicts .*; allow (\d+)\n", done.stderr
    )
    assert needed is not None
    assert not (tmp_path / "out.md").exists()
    assert command("report", path, "--format", "markdown", "--limit", needed[1]).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--limit", "0"), "'0' is no number of characters"),
        (("--limit", "-5"), "argument --limit"),
        (("--format", "pdf"), "invalid choice: 'pdf'"),
        (
            ("--format", "json", "--base", "a.json"),
            "--base compares one FILE, as text or markdown; 1 as json were asked for",
        ),
        (("b.json", "--base", "a.json"), "2 as text were asked for"),
        (("-o", "none/out.md"), "there is no folder"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    """Exit status 2, and nothing on standard output."""
    path = stored(tmp_path / "a.json", [GOOD])
    done = command("report", path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


ANNOTATED = kernel(
    case(candidate("a"), mismatching("b")),
    case(candidate("a"), id_="second"),
    line=12,
    committed=[
        row(
            verdict="stale",
            reasons=["measure again,\n100 %"],
            file="committed_configs/rms_norm_fwd/nvidia_h200.json",
            line=9,
        ),
        row(verdict="missing", reasons=["no row for this key"], config=None, key={}),
        row(
            verdict="inconclusive",
            reasons=["too close"],
            file="committed_configs/rms_norm_fwd/nvidia_h200.json",
            line=20,
        ),
        row(file="committed_configs/rms_norm_fwd/nvidia_h200.json", line=31),
    ],
)


def test_annotations_for_github(tmp_path: Path) -> None:
    """On the line of the spec, and on that of the committed row where there is one; errors before warnings."""
    done = command("report", stored(tmp_path / "a.json", [ANNOTATED]), "--format", "github", "--prefix", "lib/")
    assert done.returncode == 1
    assert done.stdout == (
        "::error file=lib/kernels/qual_rms_norm_fwd.py,line=12,title=rms_norm_fwd%3A 1 of 2 cases fails::"
        "rms_norm_fwd[rows3-cols515-float16] b: mismatch: 12 of 4096 elements differ, first at (3, 17): "
        "expected 1.5 got 1.25, max 1 ULP (rounding)\n"
        "::error file=lib/committed_configs/rms_norm_fwd/nvidia_h200.json,line=9,"
        "title=rms_norm_fwd cols515 on nvidia_h200%3A stale::measure again, 100 %25\n"
        "::error file=lib/kernels/qual_rms_norm_fwd.py,line=12,title=rms_norm_fwd all cases on nvidia_h200%3A missing::"
        "no row for this key\n"
        "::warning file=lib/committed_configs/rms_norm_fwd/nvidia_h200.json,line=20,"
        "title=rms_norm_fwd cols515 on nvidia_h200%3A inconclusive::too close\n"
    )


def test_annotations_for_gitlab(tmp_path: Path) -> None:
    """A code-quality report with what GitLab asks for; an empty list where all is well."""
    out = tmp_path / "gl-code-quality-report.json"
    done = command("report", stored(tmp_path / "a.json", [ANNOTATED]), "--format", "gitlab", "-o", out)
    assert (done.returncode, done.stdout) == (1, f"gitlab written to {out}\n")
    found = json.loads(out.read_text())
    assert [issue["severity"] for issue in found] == ["major", "major", "major", "minor"]
    assert found[1]["location"] == {
        "path": "committed_configs/rms_norm_fwd/nvidia_h200.json",
        "lines": {"begin": 9},
    }
    assert found[1]["description"] == "rms_norm_fwd cols515 on nvidia_h200: stale\nmeasure again, 100 %"
    assert len({issue["fingerprint"] for issue in found}) == 4
    assert {issue["check_name"] for issue in found} == {"kernelqual"}
    well = command("report", stored(tmp_path / "good.json", [GOOD], ENVIRONMENT), "--format", "gitlab")
    assert (well.returncode, well.stdout) == (0, "[]\n")


SPEC = """
    from ops import double, double_kernel
    from pytest_kernelqual import Case, grid, kernel_spec

    @kernel_spec(
        kernel=double_kernel, candidates=grid(BLOCK=[32, 128]), cases=[Case(n=100), Case(n=64)], key=("n",)
    )
    def doubled(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda: double(x)
"""
# One config is wrong where its block is not full.
WRONG = OPS.replace("value + value", "tl.where((BLOCK == 32) & (n == 100), value, value * 2)")


def test_annotations_of_a_real_run_are_on_their_lines(tmp_path: Path) -> None:
    """The spec's own line, and for each committed config that of its row."""
    ini = "[pytest]\nkernelqual_paths = . committed_configs\n"
    write(tmp_path, {"ops.py": WRONG, "qual_ops.py": SPEC, "pytest.ini": ini})
    rows = [committed_row({"n": n}, {"BLOCK": 32}) for n in (64, 100, 7)]
    Store(tmp_path / "committed_configs").update("doubled", H200, changes(*rows))
    run_pytest(tmp_path)
    done = command("report", tmp_path / "qualified-configurations.json", "--format", "github")
    found = re.findall(r"^::error file=(.*),line=(\d+),title=(.*)::(.*)$", done.stdout, flags=re.MULTILINE)
    assert len(found) == 4, done.stdout
    told = {}
    for file, line, title, _ in found:
        text = "".join((tmp_path / file).read_text().splitlines()[int(line) - 1 :])
        told[title.replace("%3A", ":")] = text.replace(" ", "")
    assert told.pop("doubled: 1 of 2 cases fails").startswith(("@kernel_spec(", "defdoubled("))
    for n, verdict in ((64, "stale"), (100, "stale"), (7, "orphan")):
        text = told.pop(f"doubled n{n} on nvidia_h200: {verdict}")
        assert text.startswith("{")
        assert text.partition('"key":{"n":')[2].startswith(f"{n}}}")
        assert text.count('"key":', 0, text.index(f'"n":{n}}}')) == 1
    assert not told
