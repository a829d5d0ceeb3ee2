"""`kernelqual report`: reports for people and for other programs."""

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from shutil import get_terminal_size
from types import ModuleType
from typing import Any

from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.diff import add_judging, add_limit
from pytest_kernelqual.commands.exit_status import FAILING, OK, UNUSABLE
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.report import document
from pytest_kernelqual.report.annotations import github, gitlab
from pytest_kernelqual.report.change import Diff
from pytest_kernelqual.report.changes import changes
from pytest_kernelqual.report.changes_text import changes_text
from pytest_kernelqual.report.markdown import diff_markdown, report_markdown
from pytest_kernelqual.report.named import Named, name_of, read_all
from pytest_kernelqual.report.whole import whole_text


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "report",
        help="show reports as text, Markdown, HTML, JSON or annotations",
        **described(
            "Show one report, or several (of several devices, say) one after another. "
            "Markdown is for a step summary or a comment: the verdict, what fails, the rest collapsed; with --base, "
            "what changed. github and gitlab tell what fails on the lines of specs and committed files.",
            [
                "kernelqual report qualified-configurations.json",
                'kernelqual report head.json --base main.json --format markdown >> "$GITHUB_STEP_SUMMARY"',
                "kernelqual report head.json --format github",
                "kernelqual report head.json --format gitlab -o gl-code-quality-report.json",
                "kernelqual report h200.json mi300x.json --format html -o report.html",
            ],
            {
                OK: "no report has a failure, and none is worse than BASE",
                FAILING: "one has a failure or no case, or is worse",
                UNUSABLE: "wrong usage, or a file that cannot be read or written (nothing is written)",
            },
        ),
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="a qualified-configurations.json")
    parser.add_argument("--format", choices=("text", "markdown", *_FORMATS), default="text", help="default: text")
    parser.add_argument("-o", "--output", metavar="OUT", help="where to write it (default: standard output)")
    parser.add_argument("--base", metavar="BASE", help="the report to compare with; text and markdown of one FILE")
    add_judging(parser)
    add_limit(parser)
    parser.add_argument(
        "--prefix",
        metavar="FOLDER",
        default="",
        help="github, gitlab: where the run took place, from the root of the repository (default: the root)",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> tuple[str, int]:
    based = options.base is not None
    if based and (len(options.files) > 1 or options.format in _FORMATS):
        raise DocumentError(
            f"--base compares one FILE, as text or markdown; {len(options.files)} as {options.format} were asked for"
        )
    reports = read_all([*options.files, *([options.base] if based else [])])
    diff = changes(reports.pop(), reports[0], fail_on=options.fail_on, margin=options.margin) if based else None
    worse = diff is not None and diff.worse
    failing = any(document.failing(report.document) for report in reports)
    text = _rendered(reports, diff, options)
    status = FAILING if failing or worse else OK
    if options.output is None:
        return text, status
    data = text.encode("utf-8", "backslashreplace")
    if options.format == "json":
        document.check_writable(options.output)
        document.write(options.output, data)
    else:
        document.write_other(options.output, data)
    return f"{options.format} written to {name_of(options.output)}\n", status


def _rendered(reports: Sequence[Named], diff: Diff | None, options: argparse.Namespace) -> str:
    if options.format == "markdown":
        if diff is not None:
            return diff_markdown(diff, reports[0].document, options.limit)
        return report_markdown(reports, options.limit)
    if options.format == "text":
        return f"{changes_text(diff)}\n\n{_text(reports)}" if diff is not None else _text(reports)
    return _FORMATS[options.format](reports, options)


def _text(reports: Sequence[Named]) -> str:
    width = get_terminal_size((100, 24)).columns
    shown = [whole_text(report.document, width) for report in reports]
    if len(reports) == 1:
        return shown[0] + "\n"
    return "\n\n".join(f"== {report.name} ==\n{text}" for report, text in zip(reports, shown, strict=True)) + "\n"


def _json(reports: Sequence[Named], _: argparse.Namespace) -> str:
    if len(reports) > 1:
        raise DocumentError(
            f"--format json shows one report, {len(reports)} were given; `kernelqual merge` makes one of shards"
        )
    return document.encode(reports[0].document).decode("ascii")


def _html(reports: Sequence[Named], _: argparse.Namespace) -> str:
    text: str = page_maker("html").render(reports)
    return text


def page_maker(module: str) -> ModuleType:
    """Return a module of `report` that makes pages: heavy, and an extra.

    Raises:
        DocumentError: What it needs is not installed.
    """
    try:
        return import_module(f"pytest_kernelqual.report.{module}")
    except ImportError as error:
        told = f"--format html needs the extra `report`: pip install 'pytest-kernelqual[report]' ({error})"
        raise DocumentError(told) from error


_FORMATS: dict[str, Callable[[Sequence[Named], argparse.Namespace], str]] = {
    "html": _html,
    "json": _json,
    "github": lambda reports, options: github(reports, options.prefix),
    "gitlab": lambda reports, options: gitlab(reports, options.prefix),
}
