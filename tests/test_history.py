"""`kernelqual history`: text and page, by the command and in a real browser."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import browser
import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from html_samples import gate, row
from msgspec import structs
from playwright.sync_api import Browser, expect
from report_samples import ENVIRONMENT, candidate, case, kernel

from pytest_kernelqual.report import document

SPEED_UPS = [1.5, 1.52, 1.49, 1.2]


def write(
    path: Path,
    number: int,
    speed_up: float | None,
    *,
    device: str = "nvidia_h200",
    name: str = "rms_norm_fwd",
    config: int = 4,
    started_at: str | None = None,
    cache: str = "cold",
) -> None:
    """Write the report of one run, the first of which was in January."""
    at = datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=30 * number)
    environment = structs.replace(
        ENVIRONMENT,
        started_at=at.isoformat() if started_at is None else started_at,
        triton="3.6.0" if number < 3 else "3.7.1",
    )
    ratio = 1 / speed_up if speed_up else 0
    timed = row(
        device,
        config={"num_warps": config},
        speed_up=speed_up,
        gates=[gate(ratio=[ratio, ratio * 0.99, ratio * 1.01], cache=cache)] if speed_up else [],
        verdict="ok" if speed_up else "not_timed",
    )
    kernels = [kernel(case(candidate()), name=name, committed=[timed])]
    path.parent.mkdir(exist_ok=True)
    document.write(path, document.encode(document.build(kernels, environment, [str(number)])))


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Return a folder with four runs of one device and one of another, not in the order of their names."""
    folder = tmp_path / "reports"
    for number, speed_up in enumerate(SPEED_UPS):
        write(folder / f"{9 - number}.json", number, speed_up, config=4 if number < 2 else 8)
    write(folder / "amd.json", 7, 2.0, device="amd_mi300x")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command beside the reports."""
    command = [sys.executable, "-m", "pytest_kernelqual", "history", *arguments]
    return subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=False)


def test_text_tells_the_course_of_each_row(reports: Path) -> None:
    """Runs stand in the order of their start, devices apart; what was re-tuned is said."""
    done = run(reports, "reports")
    assert done.returncode == 0
    amd, nvidia = done.stdout.split("\n\nnvidia_h200: ")
    assert amd.startswith("5 reports\n\namd_mi300x: speed-up of committed configs over the fixed launch\n")
    (line,) = (line for line in nvidia.splitlines() if line.startswith("rms_norm_fwd"))
    assert line.split()[:7] == ["rms_norm_fwd", "cols515", "4", "1.500", "1.200", "-20.0", "%"]
    assert " ###_ " in line
    assert "num_warps=8 (re-tuned 1 time)" in line
    assert line.endswith("ok")


def test_another_state_of_the_cache_is_another_course(reports: Path) -> None:
    """A spec that asks for a warm one now has neither lost nor won by it."""
    for number, speed_up in ((10, 3.0), (11, 3.3)):
        write(reports / f"{number}.json", number, speed_up, cache="warm")
    lines = [line.split() for line in run(reports, "reports").stdout.splitlines() if "cols515" in line]
    assert [line[1:-3] for line in lines][1:] == [
        ["cols515", "4", "1.500", "1.200", "-20.0", "%", "###_", "num_warps=8", "(re-tuned"],
        ["cols515,", "warm", "cache", "2", "3.000", "3.300", "+10.0", "%"],
    ]


def test_largest_loss_comes_first(reports: Path) -> None:
    """That is what a reader looks for."""
    for number, speed_up in enumerate([1.0, 0.5]):
        write(reports / f"lost-{number}.json", number, speed_up, name="softmax")
    lines = run(reports, "reports").stdout.splitlines()
    names = [line.split()[0] for line in lines if line.startswith(("softmax", "rms_norm_fwd"))]
    assert names == ["rms_norm_fwd", "softmax", "rms_norm_fwd"]


def test_what_was_not_timed_has_no_place(reports: Path) -> None:
    """A run without a device adds nothing, and is counted as a report."""
    write(reports / "interpreted.json", 9, None)
    done = run(reports, "reports")
    assert done.stdout.startswith("6 reports\n")
    assert "1.200" in done.stdout


def test_files_that_cannot_be_used_are_told(reports: Path) -> None:
    """Each is one line with its reason; the others are drawn, and the exit status says that some are missing."""
    (reports / "cut.json").write_bytes((reports / "9.json").read_bytes()[:100])
    (reports / "other.json").write_text('{"schema": "benchmark"}')
    (reports / "deep").mkdir()
    (reports / "deep/again.json").write_bytes((reports / "9.json").read_bytes())
    write(reports / "timeless.json", 11, 1.4, started_at="yesterday")
    done = run(reports, "reports")
    assert done.returncode == 1
    lines = done.stdout.split("not used:\n")[1].splitlines()
    expected = [
        "reports/cut.json: ",
        "reports/deep/again.json: the same run as reports/9.json; counted once",
        "reports/other.json: schema is 'benchmark'",
        "reports/timeless.json: started_at is 'yesterday'",
    ]
    assert [line.strip()[: len(told)] for line, told in zip(lines, expected, strict=True)] == expected
    assert "rms_norm_fwd" in done.stdout


@pytest.mark.parametrize("arguments", [("nowhere",), ("empty",), ("reports", "-o", "nowhere/page.html")])
def test_nothing_to_draw_is_one_clear_line(reports: Path, arguments: tuple[str, ...]) -> None:
    """No report, no such folder, nowhere to write."""
    (reports.parent / "empty").mkdir()
    done = run(reports, *arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("kernelqual: error: ")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Return a browser."""
    with browser.browser() as started:
        yield started


def test_page_draws_each_kernel(reports: Path, chromium: Browser) -> None:
    """A plot and a table for each kernel of the chosen device; a key leads to all its runs."""
    (reports / "other.json").write_text("[]")
    done = run(reports, "reports", "-o", "page.html")
    assert done.returncode == 1
    assert "not used: reports/other.json" in done.stdout
    assert "html of 5 reports written to page.html" in done.stdout
    opened = browser.Opened(chromium, reports.parent / "page.html", color_scheme="dark")
    page = opened.page
    page.get_by_text("1 file could not be used").click()
    assert "other.json" in page.inner_text("header")
    page.get_by_label("Device", exact=True).select_option("nvidia_h200")
    opened.status("1 kernel, 1 committed config shown")
    plot = page.get_by_role("img", name="Speed-ups of 1 committed config from 2026-01-01 12:00")
    expect(plot.locator("canvas")).to_be_visible()
    told = page.get_by_role("table", name="Committed configs of rms_norm_fwd").inner_text()
    assert "-20.0 %" in told
    assert "re-tuned 1 time" in told
    page.get_by_role("button", name="cols515").click()
    runs = page.get_by_role("dialog").get_by_role("row").all()
    assert ["1.200" in runs[1].inner_text(), "1.500" in runs[4].inner_text(), len(runs)] == [True, True, 5]
    assert "triton 3.7.1" in runs[1].inner_text()
    page.keyboard.press("Escape")
    page.get_by_role("searchbox").fill("nothing of that name")
    opened.status("0 kernels")
    assert not opened.complaints
    assert [url for url in opened.requests if not url.startswith("file:")] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_is_accessible_and_fits_a_phone(reports: Path, chromium: Browser, theme: str) -> None:
    """Axe finds nothing, and the page is no wider than the window."""
    run(reports, "reports", "-o", "page.html")
    for width in (1400, 390):
        opened = browser.Opened(chromium, reports.parent / "page.html", width=width, color_scheme=theme)
        opened.page.evaluate(AXE_FILE_PATH.read_text())
        found = opened.page.evaluate("axe.run()")["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
        assert opened.overflow <= 0


def test_page_shows_hostile_text_and_runs_none(tmp_path: Path, chromium: Browser) -> None:
    """Names of kernels and devices come from reports that a stranger may have written."""
    hostile = "</script><img src=x onerror=alert(1)>\u202e"
    for number in range(2):
        write(tmp_path / "reports" / f"{number}.json", number, 1.5, name=hostile, device=hostile)
    assert run(tmp_path / "reports", "reports", "-o", "page.html").returncode == 0
    opened = browser.Opened(chromium, tmp_path / "page.html")
    assert "</script><img src=x onerror=alert(1)>\\u202e" in opened.page.inner_text("main")
    assert opened.page.locator("img").count() == 0
    assert not opened.complaints
