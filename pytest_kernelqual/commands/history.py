"""`kernelqual history`: how committed configs moved over many reports."""

import argparse
from typing import Any

from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import FAILING, OK, UNUSABLE
from pytest_kernelqual.commands.report import page_maker
from pytest_kernelqual.report import document
from pytest_kernelqual.report.history import read_history
from pytest_kernelqual.report.history_text import history_text
from pytest_kernelqual.report.named import name_of
from pytest_kernelqual.report.phrases import counted


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "history",
        help="draw how the speed-up of each committed config moved over many reports",
        **described(
            "Draw how the speed-up of each committed config over the fixed launch moved from run to run, by device, "
            "in the order in which the runs started.",
            ["kernelqual history reports/", "kernelqual history reports/ -o history.html"],
            {
                OK: "drawn, and every file was used",
                FAILING: "drawn, and some files could not be used (each is told)",
                UNUSABLE: "wrong usage, no report that can be read, or a file that cannot be written",
            },
        ),
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a report, or a folder with reports however deep")
    parser.add_argument("--format", choices=("text", "html"), help="default: html where OUT ends so, else text")
    parser.add_argument("-o", "--output", metavar="OUT", help="where to write it (default: standard output)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> tuple[str, int]:
    history = read_history(options.paths)
    status = FAILING if history.problems else OK
    form = options.format or ("html" if (options.output or "").endswith(".html") else "text")
    text = history_text(history) if form == "text" else page_maker("html_history").render_history(history)
    if options.output is None:
        return text, status
    document.write_other(options.output, text.encode("utf-8", "backslashreplace"))
    unused = "".join(f"not used: {problem}\n" for problem in history.problems)
    return f"{unused}{form} of {counted(history.reports, 'report')} written to {name_of(options.output)}\n", status
