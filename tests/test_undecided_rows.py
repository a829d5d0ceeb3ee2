"""Committed configs that were not decided are warnings: no headline counts them among those that passed."""

import re
from pathlib import Path
from typing import Any

import pytest
from report_commands import command, gate, row, stored
from report_samples import candidate, case, kernel, mismatching

from pytest_kernelqual.model.record import CommittedRecord, KernelRecord

WHY = "timing is too noisy"


def kernels(*rows: CommittedRecord) -> list[KernelRecord]:
    """Return one kernel that passes, with rows of keys of their own."""
    return [kernel(case(candidate("a")), committed=list(rows))]


def keyed(number: int, verdict: Any = "ok", **more: Any) -> CommittedRecord:
    """Return a row that passes its item."""
    return row(gate(0.8), verdict=verdict, key={"cols": number}, passed=True, **more)


def html_count(text: str) -> str:
    """Return what the head of the page says of committed configs."""
    return re.findall(r"<dt>committed configs passed</dt><dd>([^<]*)</dd>", text)[0]


@pytest.mark.parametrize(
    ("rows", "markdown", "html"),
    [
        ([keyed(1), keyed(2)], ", 2 committed configs; on", "2 of 2"),
        (
            [keyed(1), keyed(2), keyed(3, "unmeasurable", reasons=[WHY])],
            ", 2 of 3 committed configs passed, 1 unmeasurable; on",
            "2 of 3, 1 unmeasurable",
        ),
        (
            [keyed(1, "inconclusive"), keyed(2, "not_timed"), keyed(3, "not_timed")],
            ", 0 of 3 committed configs passed, 1 inconclusive, 2 not_timed; on",
            "0 of 3, 1 inconclusive, 2 not_timed",
        ),
        (
            [keyed(1, production="changed"), keyed(2)],
            ", 2 committed configs, production's bytes changed in 1; on",
            "2 of 2, production&#39;s bytes changed in 1",
        ),
    ],
)
def test_headlines_count_them_apart(tmp_path: Path, rows: list[CommittedRecord], markdown: str, html: str) -> None:
    """In Markdown, with a base and without, and at the head of the page; they fail nothing."""
    path = stored(tmp_path / "a.json", kernels(*rows))
    alone = command("report", path, "--format", "markdown")
    assert (alone.returncode, alone.stderr) == (0, "")
    first = alone.stdout.splitlines()[0]
    assert first.startswith("**kernelqual: passed**: ")
    assert markdown in first
    based = command("report", path, "--format", "markdown", "--base", path)
    assert based.returncode == 0
    assert first in based.stdout
    page = tmp_path / "page.html"
    assert command("report", path, "--format", "html", "-o", page).returncode == 0
    assert html_count(page.read_text()) == html


def test_markdown_without_a_base_lists_the_warnings(tmp_path: Path) -> None:
    """Of what was timed and not decided, and of production's bytes; those that nothing timed are counted alone."""
    drifted = keyed(2, production="changed", reasons=["production's bytes changed since triton 3.6.0"])
    path = stored(
        tmp_path / "a.json", kernels(keyed(1, "unmeasurable", reasons=[WHY]), drifted, keyed(3, "not_timed"), keyed(4))
    )
    text = command("report", path, "--format", "markdown").stdout
    assert text.split("\n<details>")[0].split("\n\n", 1)[1] == (
        "**warnings of committed configs (2: 1 unmeasurable, 1 with other production bytes)**\n\n"
        f"- `rms_norm_fwd cols1 on nvidia_h200`: unmeasurable: `{WHY}`\n"
        "- `rms_norm_fwd cols2 on nvidia_h200`: with other production bytes: "
        "`production's bytes changed since triton 3.6.0`\n"
    )


def test_a_failing_report_tells_them_too(tmp_path: Path) -> None:
    """After what fails."""
    failing = row(verdict="stale", reasons=["the kernel changed"], key={"cols": 9})
    path = stored(tmp_path / "a.json", kernels(failing, keyed(1, "unmeasurable"), keyed(2)))
    done = command("report", path, "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout.startswith("**kernelqual: failing**: 1 of 3 committed configs fails, 1 unmeasurable; on")
    bad = kernel(case(mismatching("a")), committed=[keyed(1, "unmeasurable"), keyed(2)])
    done = command("report", stored(tmp_path / "b.json", [bad]), "--format", "markdown")
    assert done.stdout.startswith(
        "**kernelqual: failing**: 1 of 1 case fails, 1 of 2 committed configs passed, 1 unmeasurable; on"
    )


@pytest.mark.parametrize("before", ["stale", "slower_than_fixed"])
@pytest.mark.parametrize("after", ["unmeasurable", "inconclusive", "not_timed"])
def test_what_failed_and_is_undecided_did_not_begin_to_pass(tmp_path: Path, before: str, after: str) -> None:
    """Nor did it become faster."""
    base = stored(tmp_path / "base.json", kernels(row(verdict=before)))
    head = stored(tmp_path / "head.json", kernels(row(verdict=after, passed=True)))
    done = command("diff", base, head)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "not worse: 1 other verdict")
    back = command("diff", head, base)
    assert back.returncode == 1
    assert back.stdout.startswith("worse: 1 slower" if before == "slower_than_fixed" else "worse: 1 failing row")
