"""`kernelqual report --format html`: the page, in a real browser."""

import base64
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import browser
import pytest
import report_samples
from axe_playwright_python.base import AXE_FILE_PATH
from html_samples import gate, row
from hypothesis import given
from playwright.sync_api import Browser, expect
from report_samples import ENVIRONMENT, candidate, case, kernel, mismatching

from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES
from pytest_kernelqual.model.record import (
    CommittedVerdict,
    Deviation,
    DeviceDescriptor,
    Environment,
    FixedRecord,
    InputSetRecord,
    KernelRecord,
)
from pytest_kernelqual.model.target_record import TargetLaunch, TargetRecord
from pytest_kernelqual.report import document, html
from pytest_kernelqual.report.named import Named

NVIDIA = ENVIRONMENT
AMD = Environment(
    device=DeviceDescriptor(kind="hip", name="AMD Instinct MI300X", architecture="gfx942"),
    started_at="2025-01-02T00:00:00+00:00",
)


KERNELS = [
    kernel(
        case(candidate("num_warps=4"), mismatching("num_warps=16", max_ulp=7)),
        case(candidate("num_warps=4", evidence="identical_order"), candidate("num_warps=16"), id_="rows64-cols64"),
        committed=[row()],
    ),
    kernel(
        case(
            candidate("BLOCK=64", evidence="identical_binary"),
            candidate("BLOCK=128", "out_of_resources", reason="too much shared memory"),
        ),
        name="softmax",
        committed=[row(config={"BLOCK": 64}, speed_up=1.5), row(key={"cols": 9}, verdict="not_timed", gates=[])],
    ),
    kernel(name="broken", problem="cannot be imported: no module named fancy"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Return a browser."""
    with browser.browser() as started:
        yield started


class Made:
    """Makes pages of reports, and opens them."""

    def __init__(self, folder: Path, started: Browser) -> None:
        """Keep all files in `folder`."""
        self._folder = folder
        self._browser = started

    def command(self, *reports: tuple[list[KernelRecord], Environment | None], **environment: str) -> Any:
        """Run the command on the files of reports."""
        files = []
        for number, (kernels, seen) in enumerate(reports):
            files.append(f"report-{number}.json")
            document.write(self._folder / files[-1], document.encode(document.build(kernels, seen, [])))
        command = [sys.executable, "-m", "pytest_kernelqual", "report", *files, "--format", "html", "-o", "page.html"]
        return subprocess.run(
            command, cwd=self._folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )

    def page(self, *reports: tuple[list[KernelRecord], Environment | None]) -> Path:
        """Return the page that the command writes."""
        done = self.command(*reports)
        assert not done.stderr
        assert done.returncode in {0, 1}
        return self._folder / "page.html"

    def opened(self, *reports: tuple[list[KernelRecord], Environment | None], **options: Any) -> browser.Opened:
        """Return the page in the browser."""
        return browser.Opened(self._browser, self.page(*(reports or ((KERNELS, NVIDIA),))), **options)


@pytest.fixture
def made(tmp_path: Path, chromium: Browser) -> Iterator[Made]:
    """Make pages whose windows are closed after the test."""
    yield Made(tmp_path, chromium)
    for context in chromium.contexts:
        context.close()


def test_failures_come_first(made: Made) -> None:
    """What failed is told at once, with its reason; its name leads to the details."""
    opened = made.opened()
    assert "failing" in opened.texts("header .badge")[0]
    rows = opened.texts(".failures tbody tr")
    assert len(rows) == 2
    assert "cannot be imported: no module named fancy" in rows[0]
    assert "num_warps=16" in rows[1]
    opened.page.get_by_role("button", name="num_warps=16").click()
    told = opened.page.get_by_role("dialog").inner_text()
    assert "12 of 4,096" in told
    assert "(3, 17)" in told
    assert opened.page.get_by_role("columnheader", name="Max ULP").count() == 1
    assert "\t7\t" in told
    assert not opened.complaints


def test_a_report_without_failures_opens_its_matrix(made: Made) -> None:
    """There is nothing to say of failures."""
    opened = made.opened(([kernel(case(candidate()))], NVIDIA))
    assert "passing" in opened.texts("header .badge")[0]
    assert opened.page.get_by_role("grid").is_visible()


def test_matrix_shows_each_outcome_by_name_and_glyph(made: Made) -> None:
    """A cell is the worst of its cases, and is told apart without its colour."""
    opened = made.opened(view="matrix")
    cells = opened.page.get_by_role("gridcell")
    names = [cell.get_attribute("aria-label") for cell in cells.all() if cell.get_attribute("aria-label")]
    assert names == [
        "rms_norm_fwd, num_warps=4: qualified: identical bytes",
        "rms_norm_fwd, num_warps=16: mismatch, fails",
        "softmax, BLOCK=64: qualified: identical binary",
        "softmax, BLOCK=128: out of resources",
    ]
    glyphs = opened.texts(".cell")
    assert len(set(glyphs)) == 4
    headers = opened.page.locator("table.matrix > thead th, table.matrix > tbody > tr > th")
    assert all(header.get_attribute("scope") for header in headers.all())


def test_filters_and_search_narrow_the_matrix(made: Made) -> None:
    """Chips choose outcomes, words are looked for in names and reasons, a reset shows all."""
    opened = made.opened(view="matrix")
    kernels = ".matrix .opener"
    opened.status("3 kernels, 4 candidates shown")
    opened.page.get_by_role("button", name="mismatch").click()
    opened.status("1 kernel, 1 candidate shown")
    assert opened.texts(kernels) == ["rms_norm_fwd"]
    assert opened.page.get_by_role("button", name="mismatch").get_attribute("aria-pressed") == "true"
    opened.page.get_by_role("button", name="mismatch").click()
    opened.page.get_by_role("searchbox").fill("SOFT shared memory")
    opened.status("1 kernel, 1 candidate shown")
    assert opened.texts(kernels) == ["softmax"]
    opened.page.get_by_role("searchbox").fill("nowhere")
    opened.status("0 kernels")
    assert opened.texts(".empty") == ["Nothing matches these filters."]
    opened.page.get_by_role("button", name="Reset").click()
    opened.page.get_by_label("failing only").check()
    opened.status("2 kernels, 1 candidate shown")
    assert opened.texts(kernels) == ["rms_norm_fwd", "broken"]


@pytest.mark.parametrize(
    ("view", "words", "told"),
    [
        ("failures", "mismatch", "1 failure shown"),
        ("failures", "cannot fails", "1 failure shown"),
        ("failures", "out_of_resources", "0 failures shown"),
        ("matrix", "mismatch", "1 kernel, 1 candidate shown"),
        ("matrix", "out of resources", "1 kernel, 1 candidate shown"),
        ("matrix", "out_of_resources", "1 kernel, 1 candidate shown"),
        ("matrix", "identical_order", "1 kernel, 1 candidate shown"),
        ("matrix", "softmax identical binary", "1 kernel, 1 candidate shown"),
        ("speed", "not timed", "1 committed config shown, 0 of them timed"),
        ("speed", "not_timed", "1 committed config shown, 0 of them timed"),
        ("speed", "identical bytes", "3 committed configs shown, 2 of them timed"),
        ("devices", "not timed", "1 key on 1 device"),
    ],
)
def test_search_finds_outcomes_evidence_and_verdicts(made: Made, view: str, words: str, told: str) -> None:
    """In every view, by their names and as the page writes them."""
    opened = made.opened(view=view)
    opened.page.get_by_role("searchbox").fill(words)
    opened.status(told)
    assert not opened.complaints


def test_search_finds_failures_by_verdict_and_by_any_of_their_cases(made: Made) -> None:
    """A candidate that fails in several cases is found by each of them."""
    kernels = [
        kernel(
            case(mismatching("a")),
            case(candidate("a", "fault", reason="illegal access"), id_="second"),
            case(fixed=FixedRecord(outcome="incomplete_write", reason="poison"), id_="third"),
            committed=[row(verdict="slower_than_fixed", passed=False)],
        )
    ]
    opened = made.opened((kernels, NVIDIA))
    for words in ("second", "illegal", "fault", "incomplete write", "slower than fixed", "slower_than_fixed"):
        opened.page.get_by_role("searchbox").fill(words)
        opened.status("1 failure shown")
    assert not opened.complaints


@pytest.mark.parametrize("odd", [None, 5, "three", [], {"a": [1]}, [None, {"a": 1}], True])
def test_facts_of_any_form_are_shown(made: Made, odd: Any) -> None:
    """What a record holds beside its outcome is free in form, and hinders no page."""
    fields = ("output", "elements", "differing", "first_index", "expected", "actual", "max_ulp", "note", "diagnosis")
    found = dict.fromkeys(fields, odd)
    details = [{"mismatches": odd, "log": odd}, {"mismatches": [{**found, "note": ""}, found]}, {"mismatches": [odd]}]
    candidates = [
        candidate(f"c{number}", "mismatch", reason="bytes differ", detail=one) for number, one in enumerate(details)
    ]
    opened = made.opened(([kernel(case(*candidates))], NVIDIA))
    for number in range(len(details)):
        opened.page.get_by_role("button", name=f"c{number}").click()
        assert "bytes differ" in opened.page.get_by_role("dialog").inner_text()
        opened.page.locator("#detail-close").click()
    assert not opened.complaints


def test_speed_tells_intervals_and_margin(made: Made) -> None:
    """Each timed row has its speed-up with bounds as text and as a bar, and the plot shows all of them."""
    opened = made.opened(view="speed")
    assert opened.page.get_by_role("img", name="Speed-ups of 2 committed configs from 1.250").is_visible()
    table = opened.page.get_by_role("table", name="Committed configs")
    first = table.get_by_role("row").nth(1)
    assert "1.250" in first.inner_text()
    assert "[1.220, 1.282]" in first.inner_text()
    assert first.locator(".interval .beyond").count() == 1
    for order in ("ascending", "descending"):
        table.get_by_role("button", name="Speed-up").click()
        expect(table.get_by_role("columnheader", name="Speed-up")).to_have_attribute("aria-sort", order)
    assert ["softmax" in text for text in opened.texts(".rows tbody tr")] == [True, False, True]
    table.get_by_role("button", name="rms_norm_fwd").click()
    dialog = opened.page.get_by_role("dialog")
    assert "-20.00 % [-22.00, -18.00]" in dialog.inner_text()
    assert dialog.locator("canvas").count() == 1


def test_samples_of_fresh_processes_are_shown(made: Made) -> None:
    """A plot for each process that decided."""
    confirmed = gate(verdict="slow", confirmations=[[[10.0, 10.6, 10.7, 10.1]], [[10.0, 10.5, 10.6, 10.2]]])
    opened = made.opened(([kernel(case(candidate()), committed=[row(gates=[confirmed])])], NVIDIA), view="speed")
    opened.page.get_by_role("table", name="Committed configs").get_by_role("button", name="rms_norm_fwd").click()
    dialog = opened.page.get_by_role("dialog")
    titles = [f"Samples: not slower than fixed, process {at}" for at in (1, 2, 3)]
    assert [title for title in dialog.locator("h3").all_inner_texts() if "Samples" in title] == titles
    expect(dialog.locator("canvas")).to_have_count(3)


def test_devices_stand_beside_each_other(made: Made) -> None:
    """Reports of several devices make one table of keys by devices; the report to look at can be chosen."""
    amd = kernel(case(candidate()), committed=[row("amd_mi300x", config={"num_warps": 8}, speed_up=2.0)])
    opened = made.opened((KERNELS, NVIDIA), ([amd], AMD), view="devices")
    table = opened.page.get_by_role("table", name="Committed configs over devices")
    heads = [head.inner_text() for head in table.get_by_role("columnheader").all()]
    assert heads == ["Kernel and key", "amd_mi300x", "nvidia_h200"]
    first = table.get_by_role("row").nth(1).inner_text()
    assert "2.000" in first
    assert "1.250" in first
    opened.page.get_by_role("tab", name="Matrix").click()
    opened.page.get_by_label("Report", exact=True).select_option(label="AMD Instinct MI300X · report-1.json")
    opened.status("1 kernel, 1 candidate shown")
    opened.page.locator(".cell").first.click()
    assert "NVIDIA H200" not in opened.page.get_by_role("dialog").inner_text()


def test_a_candidate_is_told_of_in_all_reports(made: Made) -> None:
    """Its details say how it did on the other devices."""
    bad = kernel(case(mismatching("num_warps=4")))
    opened = made.opened((KERNELS, NVIDIA), ([bad], AMD), view="matrix")
    opened.page.locator(".cell").first.click()
    table = opened.page.get_by_role("table", name="In the other reports")
    assert "AMD Instinct MI300X" in table.inner_text()
    assert "mismatch" in table.inner_text()


def test_a_case_that_fails_without_a_reason_is_told(made: Made) -> None:
    """Nothing that fails is missing from the failures."""
    opened = made.opened(([kernel(case(candidate(), passed=False))], NVIDIA))
    assert "failed without a reason" in opened.texts(".failures tbody tr")[0]


def test_theme_follows_the_system_until_it_is_chosen(made: Made) -> None:
    """The button turns it around, and the plots with it."""
    opened = made.opened(view="speed", color_scheme="dark")
    shade = "parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    assert opened.page.evaluate(shade) < 60
    opened.page.get_by_role("button", name="Light theme").click()
    assert opened.page.evaluate(shade) > 200
    opened.page.reload()
    opened.page.wait_for_selector("html[data-ready]")
    assert opened.page.evaluate(shade) > 200
    assert made.opened(view="speed").page.evaluate(shade) > 200
    assert not opened.complaints


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_views_are_accessible_and_fit_a_phone(made: Made, width: int, theme: str) -> None:
    """Axe finds nothing, contrast included, and nothing but tables in their frames is wider than the window."""
    every = [
        *(candidate(f"outcome={name}", name) for name in OUTCOMES),
        *(candidate(f"evidence={name}", evidence=name) for name in EVIDENCE),
    ]
    verdicts = [row(key={"cols": number}, verdict=name) for number, name in enumerate(get_args(CommittedVerdict))]
    more = kernel(case(*every), name="every", committed=verdicts)
    opened = made.opened(([*KERNELS, more], NVIDIA), width=width, color_scheme=theme)
    page = opened.page
    page.evaluate(AXE_FILE_PATH.read_text())

    def look() -> None:
        found = page.evaluate("axe.run()")["violations"]
        assert [(each["id"], each["nodes"][0]["html"], each["nodes"][0]["failureSummary"]) for each in found] == []
        assert opened.overflow <= 0

    for view in ("Failures", "Matrix", "Speed", "Devices"):
        page.get_by_role("tab", name=view).click()
        look()
    page.get_by_role("button", name="num_warps=4").first.click()
    look()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Matrix").click()
    page.get_by_role("button", name="rms_norm_fwd").click()
    page.get_by_role("button", name="every").click()
    look()
    page.get_by_role("button", name="num_warps=16").click()
    look()


def test_keyboard_reaches_everything(made: Made) -> None:
    """Tab leads in reading order, arrows move in tabs and in the matrix, Enter opens, Escape goes back."""
    opened = made.opened(view="matrix")
    page = opened.page
    focused: Callable[[], str] = lambda: page.evaluate(  # noqa: E731
        "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText)"
        " || document.activeElement.id"
    )
    seen = []
    for _ in range(16):
        page.keyboard.press("Tab")
        seen.append(focused().split("\n")[0])
    expected = ["Skip to content", "Dark theme", "search", "failing-only", "Reset", "Matrix"]
    assert [name for name in seen if any(name.startswith(each) for each in expected)][:6] == [
        next(name for name in seen if name.startswith(each)) for each in expected
    ]
    page.get_by_role("button", name="rms_norm_fwd").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert focused() == "softmax, BLOCK=64: qualified: identical binary"
    page.keyboard.press("End")
    assert focused() == "softmax, BLOCK=128: out of resources"
    page.keyboard.press("Enter")
    assert page.get_by_role("dialog").is_visible()
    assert "too much shared memory" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog").is_visible()
    assert focused() == "softmax, BLOCK=128: out of resources"
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert page.get_by_role("region", name="Candidates and cases of softmax").is_visible()
    page.get_by_role("tab", name="Matrix").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Speed").get_attribute("aria-selected") == "true"


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=http://example.invalid/x onerror=alert(2)>",
    "{{ 7 * 7 }}<!--",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x00\x07",
    "\ud800lone",
    "n" * 100_000,
    "javascript:alert(3)",
]


def test_hostile_text_is_shown_and_does_nothing(made: Made) -> None:
    """No text of a report runs, asks a network, turns the text around it, or breaks the page."""
    kernels = [
        kernel(
            case(
                mismatching(text, output=text, note=text, expected=text),
                candidate("config", "fault", reason=text, detail={"log": text, text: [text]}),
                id_=text,
                nodeid=text,
            ),
            name=text,
            notes=[text],
            screen=text,
            committed=[row(text, key={text: text}, config={text: text}, reasons=[text], timed_at=text, passed=False)],
        )
        for text in HOSTILE
    ]
    device = DeviceDescriptor(kind="cuda", name=HOSTILE[0], architecture=HOSTILE[1])
    opened = made.opened((kernels, Environment(device=device, torch=HOSTILE[3], started_at=HOSTILE[2])))
    page = opened.page
    for view in ("Failures", "Speed", "Devices", "Matrix"):
        page.get_by_role("tab", name=view).click()
        assert opened.overflow <= 0
    for opener in page.locator(".matrix .opener").all():
        opener.click()
    text = page.inner_text("body")
    assert HOSTILE[0] in text
    assert "\\u202egnp.exe" in text
    assert "\\x1b[31mred\\x00" in text
    assert "\\ud800lone" in text
    assert not set(text) & set("\u202e\u2066\x1b\x00")
    for cell in page.locator(".cell").all():
        cell.click()
        page.keyboard.press("Escape")
    assert opened.overflow <= 0
    assert not opened.complaints
    assert [url for url in opened.requests if not url.startswith("file:")] == []


def test_nothing_but_the_pages_own_script_can_run(made: Made) -> None:
    """The policy of the page would stop even what slipped through."""
    opened = made.opened()
    opened.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.slipped = 1'}))"
    )
    assert opened.page.evaluate("window.slipped") is None
    assert "Content Security Policy" in opened.complaints[0]


def test_page_is_one_file_of_ascii(made: Made) -> None:
    """It can be printed, mailed and downloaded, and holds no address of anything to load."""
    text = made.page((KERNELS, NVIDIA)).read_text("ascii")
    assert "default-src 'none'" in text
    assert 'src="' not in text
    assert 'href="http' not in text


def test_plots_are_drawn_by_a_release_of_uplot() -> None:
    """The file is that of uPlot 1.6.32 as its authors published it."""
    script = Path(html.__file__).with_name("page") / "uPlot.iife.min.js"
    assert script.read_bytes().startswith(b"/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    assert sha256(script.read_bytes()).hexdigest() == "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"


def test_same_reports_give_the_same_page(made: Made) -> None:
    """A page says nothing of when it was made."""
    assert made.page((KERNELS, NVIDIA)).read_bytes() == made.page((KERNELS, NVIDIA)).read_bytes()


def test_long_texts_are_cut_where_the_page_would_grow_too_large(made: Made) -> None:
    """A page stays under 10 MB: verdicts are kept, and the page says what it cut."""
    rng = random.Random(0)  # noqa: S311
    noise = [base64.b64encode(rng.randbytes(3000)).decode() for _ in range(3000)]
    records = [candidate(f"n={number}", "fault", detail={"log": text}) for number, text in enumerate(noise)]
    path = made.page(([kernel(case(*records))], NVIDIA))
    assert path.stat().st_size < 10_000_000
    opened = made.opened(([kernel(case(*records))], NVIDIA))
    assert "Texts longer than 400 characters are cut" in opened.page.inner_text("main")
    opened.status("3,000 failures shown")


def test_report_of_no_device(made: Made) -> None:
    """A run that never got a device process has a page, too."""
    opened = made.opened(([], None))
    assert "No device answered" in opened.page.inner_text("header")
    assert "proves nothing" in opened.page.inner_text("main")


def test_missing_jinja2_is_one_clear_line(made: Made, tmp_path: Path) -> None:
    """Whoever lacks the extra is told what to install."""
    stub = tmp_path / "stub"
    stub.mkdir()
    (stub / "jinja2.py").write_text("raise ModuleNotFoundError(\"No module named 'jinja2'\")")
    done = made.command((KERNELS, NVIDIA), PYTHONPATH=os.pathsep.join([str(stub), os.environ.get("PYTHONPATH", "")]))
    assert done.returncode == 2
    assert done.stderr.startswith("kernelqual: error: --format html needs the extra `report`: pip install 'pytest-k")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


def test_fixed_launches_that_fail_are_told(made: Made) -> None:
    """Their outcome and reason stand among the failures, and how far they are from the oracle with their kernel."""
    off = Deviation(output="return", elements=100, beyond=7, max_ulp=9)
    failing = case(candidate("a", "not_run"), fixed=FixedRecord(outcome="mismatch", reason="other bytes", oracle=[off]))
    opened = made.opened(([kernel(failing)], NVIDIA))
    assert "mismatch" in opened.texts(".failures tbody tr")[0]
    assert "other bytes" in opened.texts(".failures tbody tr")[0]
    opened.page.get_by_role("tab", name="Matrix").click()
    opened.page.get_by_role("button", name="rms_norm_fwd").click()
    opened.page.get_by_role("button", name="fixed launch").click()
    assert "7 of 100" in opened.page.get_by_role("table", name="Against the oracle").inner_text()


def test_compile_targets_are_told(made: Made) -> None:
    """What a candidate would meet on GPUs that are not there stands with its details."""
    reason = "shared memory: 99 required, 64 allowed"
    launches = [TargetLaunch(id="num_warps=8", outcome="out_of_resources", reason=reason)]
    target = TargetRecord(target="hip:gfx942", shared_limit_bytes=65536, launches=launches)
    opened = made.opened(([kernel(case(candidate(), targets=[target]))], NVIDIA))
    opened.page.locator(".cell").first.click()
    assert f"hip:gfx942\tout of resources\t{reason}" in opened.page.get_by_role("dialog").inner_text()


def test_input_sets_that_were_put_aside_are_told(made: Made) -> None:
    """With their kernel, but for those that nobody asked for by name."""
    sets = [
        InputSetRecord(profile="sorted", seed=0, set_aside="no input of the case takes it"),
        InputSetRecord(profile="beyond_2_31", seed=0, set_aside="needs 25.8 GB", declared=True),
    ]
    opened = made.opened(([kernel(case(candidate(), input_sets=sets))], NVIDIA))
    opened.page.get_by_role("button", name="rms_norm_fwd").click()
    told = opened.page.get_by_role("table", name="Put aside").inner_text()
    assert "beyond_2_31\tneeds 25.8 GB" in told
    assert "sorted" not in told


@given(records=report_samples.kernels)
def test_any_records_make_a_page(records: list[KernelRecord]) -> None:
    """The page holds every outcome of any report, and no character that a reader would not see."""
    page = html.render([Named("report.json", document.build(records, None, []))])
    assert page.isascii()
    assert page.count("<script") == 2
    packed = page.split('id="data">')[1].split("</script>")[0]
    held = json.loads(gzip.decompress(base64.b64decode(packed)))
    (report,) = held["reports"]
    assert [
        [[held["outcomes"][record[1]] for record in one["candidates"]] for one in of_kernel["cases"]]
        for of_kernel in report["kernels"]
    ] == [[[record.outcome for record in one.candidates] for one in of_kernel.cases] for of_kernel in records]
    assert all(character.isprintable() or character in "\n\t" for text in strings(held) for character in text)


def strings(value: Any) -> Iterator[str]:
    """Yield all texts of a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from strings(item)
