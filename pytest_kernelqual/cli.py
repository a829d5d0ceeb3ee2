"""The `kernelqual` command: reports without pytest, torch or a GPU."""

import argparse
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

from pytest_kernelqual.commands import check, completion, diff, explain, history, merge, report, repro
from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import FAILING, INTERRUPTED, OK, UNUSABLE
from pytest_kernelqual.commands.showing import shown
from pytest_kernelqual.errors import DocumentError, KernelqualError
from pytest_kernelqual.files import strict_json
from pytest_kernelqual.model.record import Document
from pytest_kernelqual.report import document, journal, schema
from pytest_kernelqual.report.drift import compare
from pytest_kernelqual.report.drift_text import comparison_text
from pytest_kernelqual.report.phrases import clean

REPORT_FILE = "qualified-configurations.json"

_LONGEST = 4000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 1 the report fails, 2 it could not be done."""
    parser = command_parser()
    completion.complete(parser)
    options = parser.parse_args(arguments)
    # Records hold no cycles, and looking for some takes longer than reading them.
    gc.disable()
    try:
        text, status = _run(options)
        _print(text)
    except KernelqualError as error:
        return _ended(str(error))
    except KeyboardInterrupt:
        return _ended("interrupted", INTERRUPTED)
    except MemoryError:
        return _ended("there is not enough memory for these files; free some, or give fewer or smaller files")
    except Exception as error:  # noqa: BLE001 - Python would end with the status of a report that fails
        at = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error}"
        return _ended(f"a fault of kernelqual at {at.filename}:{at.lineno}, report it: {' '.join(told.split())}")
    else:
        return status
    finally:
        gc.enable()


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="kernelqual",
        **described(
            "Work with the files of `pytest --kernelqual`: reports, journals, committed configs. "
            "`kernelqual COMMAND --help` tells what a command takes, and what its exit statuses mean.",
            [
                f"kernelqual report {REPORT_FILE} --format html -o report.html",
                f"kernelqual diff base.json {REPORT_FILE}",
                f"kernelqual explain {REPORT_FILE} --candidate num_warps=8",
            ],
            {
                OK: "done, and nothing is wrong with what was shown, compared or checked",
                FAILING: "done, and something is: a failure, a difference, a finding, or no case at all",
                UNUSABLE: "wrong usage, or a file that cannot be used; one line on standard error says why",
            },
        ),
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('pytest-kernelqual')}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)

    show = commands.add_parser(
        "summary",
        help="show a JSON report as text",
        **described(
            "Show a report as the end of the run showed it.",
            [f"kernelqual summary {REPORT_FILE}"],
            {OK: "the report has no failure", FAILING: "it has one, or no case at all"},
        ),
    )
    show.add_argument("file", metavar="FILE", help=f"a {REPORT_FILE}")

    recover = commands.add_parser(
        "recover",
        help="turn the journal of a killed run into a report, and show it",
        **described(
            "Make the report of a run that was killed before it could write one.",
            [f"kernelqual recover {REPORT_FILE}.journal"],
            {OK: "written, and the report has no failure", FAILING: "written, and it has one, or no case at all"},
        ),
    )
    recover.add_argument("journal", metavar="JOURNAL", help="the journal folder of the run")
    recover.add_argument(
        "-o", "--output", metavar="FILE", help=f"where to write the report (default: JOURNAL/{REPORT_FILE})"
    )

    toolchains = commands.add_parser(
        "compare-toolchains",
        help="tell what changed between two reports of one tree, such as under two compilers",
        **described(
            "Tell which bytes, outcomes, evidence, arithmetic orders and resources changed between two runs of one "
            "tree, such as before and after an upgrade of the compiler.",
            ["kernelqual compare-toolchains before.json after.json"],
            {
                OK: "they agree; toolchain and resources may differ",
                FAILING: "bytes, outcomes, evidence or order changed, cannot be compared, or are in one report alone",
            },
        ),
    )
    toolchains.add_argument("first", metavar="A", help=f"the {REPORT_FILE} of one run")
    toolchains.add_argument("second", metavar="B", help="the one of the other run")
    toolchains.add_argument("--format", choices=("text", "json"), default="text", help="what to print (default: text)")

    report.add(commands)
    diff.add(commands)
    history.add(commands)
    merge.add(commands)
    check.add(commands)
    explain.add(commands)
    repro.add(commands)
    completion.add(commands)
    commands.add_parser(
        "schema",
        help=f"print the JSON Schema of {REPORT_FILE}",
        **described(f"Print the JSON Schema of {REPORT_FILE}.", ["kernelqual schema > schema.json"], {OK: "printed"}),
    )
    return parser


def _run(options: argparse.Namespace) -> tuple[str, int]:
    """Return what to print and the exit status."""
    if "run" in options:
        told: tuple[str, int] = options.run(options)
        return told
    if options.command == "schema":
        return schema.render(), OK
    if options.command == "summary":
        return shown(document.read(options.file))
    if options.command == "compare-toolchains":
        return _compared(document.read(options.first), document.read(options.second), options.format)
    output = Path(options.journal, REPORT_FILE) if options.output is None else options.output
    recovered = _recovered(options.journal)
    document.check_writable(output)
    document.write(output, document.encode(recovered))
    text, status = shown(recovered)
    return f"{text}\nreport written to {ascii(os.fspath(output))[1:-1]}\n", status


def _recovered(folder: str) -> Document:
    plan = journal.read_plan(folder)
    kernels, environment, nodeids, reasons = journal.recover(folder, plan=plan)
    reasons = reasons or ["recovered from a journal: the run may have ended before its report was written"]
    return document.build(kernels, environment, nodeids, reasons, plan)


def _compared(first: Document, second: Document, form: str) -> tuple[str, int]:
    for role, one in (("A", first), ("B", second)):
        if not one.kernels:
            raise DocumentError(f"{role} holds no kernels, so that there is nothing to compare; run again")
    found = compare(first, second)
    text = f"{comparison_text(found)}\n" if form == "text" else strict_json.dump(found, indent=True).decode("ascii")
    return text, FAILING if found.differs else OK


def _ended(why: str, status: int = UNUSABLE) -> int:
    try:
        for line in why.splitlines():
            told = clean(line, len(line) * 10)  # of a character, all that is spelt out of it
            if len(told) > _LONGEST:  # its end says what to do
                told = f"{told[: _LONGEST // 2]} ... {told[-_LONGEST // 2 :]}"
            print(f"kernelqual: error: {told}", file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)
    return status


def _print(text: str) -> None:
    if sys.stdout is None:
        raise DocumentError("standard output is closed; redirect it to a file or to /dev/null")
    if not text.isascii():  # the names of files, which a terminal may have no letters for
        encoding = sys.stdout.encoding or "utf-8"
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:  # the reader has seen enough
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        raise DocumentError(f"cannot write to standard output: {error.strerror or error}; send it elsewhere") from error


def _discard(stream: TextIO) -> None:
    """Drop what could not be written: Python writes it again at exit, which must not fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
