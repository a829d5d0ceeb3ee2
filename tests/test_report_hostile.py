"""Hostile names and messages do nothing in any format, and come back equal from JSON."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hostile_samples import FRAGMENTS, SIGN, compiled_rows, environments, kernels, reasons
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace
from report_commands import command, row
from report_samples import candidate, case, kernel

from pytest_kernelqual.model.record import Document
from pytest_kernelqual.report.annotations import annotations, github, gitlab
from pytest_kernelqual.report.changes import changes
from pytest_kernelqual.report.changes_text import changes_text
from pytest_kernelqual.report.document import build, encode, read
from pytest_kernelqual.report.html import render
from pytest_kernelqual.report.markdown import MARKER, diff_markdown, report_markdown
from pytest_kernelqual.report.named import Named
from pytest_kernelqual.report.whole import whole_text

documents = st.builds(
    lambda records, environment, why, compiled: replace(build(records, environment, [], why), compiled_rows=compiled),
    st.lists(kernels, min_size=1, max_size=2),
    environments,
    reasons,
    st.lists(compiled_rows, max_size=1),
)
OUR_HTML = {"<details>\n<summary>the whole report</summary>\n", "</details>\n", f"{MARKER}\n"}
COMMAND = re.compile(r"::(error|warning) file=([^:,\n]*),line=([1-9]\d*),title=([^:,\n]*)::([^\n]*)\n")
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def check_markdown(text: str) -> None:
    """Assert that foreign text is code, and that the rest is ours."""
    assert text.startswith("**kernelqual: ")
    assert text.endswith(f"\n{MARKER}\n")
    assert text.isascii()
    assert all(line.isprintable() for line in text.split("\n"))
    opened = 0
    for token in PARSER.parse(text):
        assert token.type not in {"table_open", "code_block", "hr", "blockquote_open"}, token
        if token.type == "html_block":
            assert token.content in OUR_HTML, token
            opened += token.content.startswith("<details>") - token.content.startswith("</details>")
        for child in token.children or []:
            assert child.type in {
                "text",
                "code_inline",
                "strong_open",
                "strong_close",
                "em_open",
                "em_close",
                "softbreak",
            }
            if child.type == "text":
                assert SIGN not in child.content
                assert re.fullmatch(r"[\w :;,.()'%-]*", child.content), child
    assert opened == 0


def unescaped(text: str) -> str:
    """Read what GitHub reads."""
    for code, character in (("%0A", "\n"), ("%0D", "\r"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


def check_annotations(document: Document) -> None:
    """Assert that there is one workflow command for each, and that it says what it must."""
    reports, expected = [Named("a", document)], [*annotations(document)]
    text = github(reports)
    found = COMMAND.findall(text)
    assert "".join(match[0] for match in re.finditer(COMMAND, text)) == text
    assert [unescaped(title) for _, _, _, title, _ in found] == [one.title for one in expected]
    assert [unescaped(said).split("\n")[0] for *_, said in found] == [one.lines[0] for one in expected]
    issues = json.loads(gitlab(reports))
    assert [issue["description"].split("\n")[0] for issue in issues] == [one.title for one in expected]


# Each document holds three records on average: more than a thousand in all.
@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(documents, st.integers(0, 200))
def test_every_format_takes_hostile_records(
    tmp_path_factory: pytest.TempPathFactory, document: Document, width: int
) -> None:
    """More than a thousand hostile records: none raises, breaks out of its place, or is lost."""
    path = tmp_path_factory.getbasetemp() / "hostile.json"
    path.write_bytes(encode(document))
    assert read(path) == document
    text = whole_text(document, width)
    assert text.isascii()
    assert all(line.isprintable() for line in text.split("\n"))
    reports = [Named("a `name`\\", document)]
    check_markdown(report_markdown(reports))
    check_markdown(report_markdown(reports * 2))
    check_annotations(document)
    page = render(reports)
    assert page.isascii()
    assert page.count("<script") == 2  # of its own


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(documents, min_size=2, max_size=2))
def test_differences_of_hostile_records(both: list[Document]) -> None:
    """The same of what changed; a kernel of both makes them comparable."""
    shared = kernel(case(candidate()))
    one, other = (
        replace(
            build([shared, *each.kernels], each.environment, [], each.incomplete_because),
            compiled_rows=each.compiled_rows,
        )
        for each in both
    )
    diff = changes(Named("a", one), Named("b", other))
    text = changes_text(diff)
    assert text.isascii()
    assert all(line.isprintable() for line in text.split("\n"))
    check_markdown(diff_markdown(diff))
    check_markdown(diff_markdown(diff, other))


def test_commands_take_hostile_files(tmp_path: Path) -> None:
    """All fragments at once, through the command itself."""
    names = [f"{SIGN}{fragment}{SIGN}" for fragment in FRAGMENTS]
    bad: list[Any] = [candidate(name, "mismatch", reason=name) for name in names]
    file = f"committed_configs/{names[0]}.json"
    good = kernel(case(*(candidate(name) for name in names)))
    records = [kernel(case(*bad, id_=names[1]), case(*bad), committed=[row(verdict="stale", file=file, reasons=names)])]
    for path, kernels_ in (("base.json", [good]), ("head.json", records)):
        (tmp_path / path).write_bytes(encode(build(kernels_, None, [], names)))
    base, head = tmp_path / "base.json", tmp_path / "head.json"
    for arguments in (
        ("report", head),
        ("report", head, "--format", "markdown"),
        ("report", head, "--format", "github"),
        ("report", head, "--format", "gitlab"),
        ("report", head, "--format", "markdown", "--base", base),
        ("diff", base, head),
        ("diff", base, head, "--format", "markdown"),
        ("diff", base, head, "--format", "json"),
    ):
        done = command(*arguments)
        assert (done.returncode, done.stderr) == (1, ""), arguments
        assert SIGN in done.stdout
        assert done.stdout.isascii() or arguments[-1] in ("github", "gitlab")
        if "markdown" in arguments:
            check_markdown(done.stdout)
    done = command("report", head, "--format", "html")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.isascii()
    assert "<script>alert(1)" not in done.stdout
    done = command("report", head, "--format", "json")
    assert done.stdout.encode() == head.read_bytes()
