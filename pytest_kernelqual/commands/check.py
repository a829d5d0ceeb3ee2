"""`kernelqual check`: committed files, without pytest, a GPU, torch or triton."""

import argparse
from pathlib import Path
from typing import Any

from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import FAILING, OK, UNUSABLE
from pytest_kernelqual.committed.checking import check
from pytest_kernelqual.report.phrases import counted

FOLDER = "committed_configs"


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "check",
        help="check the files of committed configs",
        **described(
            "Check every file of committed configs: readable, canonical form, schema, duplicates, "
            "values that no launch can have, names of files and folders against what is in them, "
            "files that nothing reads, kernels without a file for a device of which other kernels have one. "
            "Whether the code still declares what they hold, `pytest --kernelqual` tells.",
            ["kernelqual check committed_configs"],
            {OK: "no findings", FAILING: "findings, one line each", UNUSABLE: "the folder cannot be read"},
        ),
    )
    parser.add_argument("folder", metavar="FOLDER", nargs="?", default=FOLDER, help=f"default: {FOLDER}")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> tuple[str, int]:
    found = check(Path(options.folder))
    told = f"{counted(len(found.findings), 'finding')}; {counted(found.files, 'usable file')}"
    if not found.findings and not found.files:
        return f"{ascii(options.folder)[1:-1]} holds no committed configs: there is nothing to check\n", OK
    lines = [*found.findings, f"{told} with {counted(found.rows, 'row')}"]
    return "\n".join(lines) + "\n", FAILING if found.findings else OK
