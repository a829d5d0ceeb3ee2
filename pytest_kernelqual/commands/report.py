"""`kernelqual report`: reports for people and for other programs."""

import argparse
from collections.abc import Sequence
from importlib import import_module
from shutil import get_terminal_size
from types import ModuleType
from typing import Any

from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import FAILING, OK, UNUSABLE
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import atomic
from pytest_kernelqual.report import document
from pytest_kernelqual.report.named import Named, name_of, read_all
from pytest_kernelqual.report.text import summary


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "report",
        help="show reports as text, Markdown, HTML or JSON",
        **described(
            "Show one report, or several (of several devices, say) one after another.",
            ["kernelqual report qualified-configurations.json"],
            {
                OK: "no report has a failure",
                FAILING: "one has a failure or no case",
                UNUSABLE: "wrong usage, or a file that cannot be read or written (nothing is written)",
            },
        ),
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="a qualified-configurations.json")
    parser.add_argument("--format", choices=tuple(_FORMATS), default="text", help="default: text")
    parser.add_argument("-o", "--output", metavar="OUT", help="where to write it (default: standard output)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> tuple[str, int]:
    reports = read_all(options.files)
    status = FAILING if any(document.failing(report.document) for report in reports) else OK
    text = _FORMATS[options.format](reports)
    if options.output is None:
        return text, status
    atomic.write(options.output, text.encode("utf-8", "backslashreplace"))
    return f"{options.format} written to {name_of(options.output)}\n", status


def _text(reports: Sequence[Named]) -> str:
    width = get_terminal_size((100, 24)).columns
    shown = [summary(report.document, width=width) for report in reports]
    if len(reports) == 1:
        return shown[0] + "\n"
    return "\n\n".join(f"== {report.name} ==\n{text}" for report, text in zip(reports, shown, strict=True)) + "\n"


def _json(reports: Sequence[Named]) -> str:
    if len(reports) > 1:
        raise DocumentError(
            f"--format json shows one report, {len(reports)} were given; `kernelqual merge` makes one of shards"
        )
    return document.encode(reports[0].document).decode("ascii")


def _html(reports: Sequence[Named]) -> str:
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


_FORMATS = {"text": _text, "json": _json, "html": _html}
