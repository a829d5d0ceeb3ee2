"""`kernelqual merge`: one report, and one JUnit file, of the shards of a run."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import FAILING, OK, UNUSABLE
from pytest_kernelqual.commands.showing import shown
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import atomic
from pytest_kernelqual.report import document
from pytest_kernelqual.report.junit_merging import merge_junit
from pytest_kernelqual.report.merging import Shard, merge


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "merge",
        help="merge the reports of the shards of a run into one, and show it",
        **described(
            "Merge the reports of all shards of a run into that of the whole run. "
            "Shards that contradict each other, are doubled or are missing are an error that names them.",
            ["kernelqual merge shards/*/qualified-configurations.json --json qualified-configurations.json"],
            {
                OK: "merged",
                FAILING: "merged, and the report has a failure or no case",
                UNUSABLE: "the shards are not those of one run, or a file cannot be used: nothing is written",
            },
        ),
    )
    parser.add_argument(
        "files", metavar="SHARD", nargs="+", help="a qualified-configurations.json, or a JUnit file (*.xml)"
    )
    parser.add_argument("--json", metavar="OUT", required=True, help="where to write the merged report")
    parser.add_argument("--junitxml", metavar="OUT", help="where to write the merged JUnit file")
    parser.add_argument(
        "--declared",
        metavar="FILE",
        help="the output of `pytest --kernelqual --collect-only -q`: what is declared; needed where all shards "
        "were given paths, none of which tells what else there is",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> tuple[str, int]:
    xml_files = [name for name in options.files if name.endswith(".xml")]
    if bool(xml_files) != bool(options.junitxml):
        raise DocumentError("JUnit files are merged where they are given (*.xml) and --junitxml says where to")
    _check_once(options.files)
    _check_apart(options)
    shards, problems = [], []
    for name in options.files:
        if name not in xml_files:
            try:
                shards.append(Shard(_named(name), document.read(name)))
            except DocumentError as error:
                problems.append(str(error))
    if problems:
        raise DocumentError("\n".join(problems))
    merged = merge(shards, _declared(options.declared) if options.declared is not None else None)
    outputs = {options.json: document.encode(merged)}
    if options.junitxml:
        texts = {_named(name): _read(name) for name in xml_files}
        outputs[options.junitxml] = merge_junit(texts, shards, merged)
    document.check_writable(options.json)
    for path in outputs:
        atomic.check_writable(path)
    atomic.write_all(outputs)
    text, status = shown(merged)
    return f"{text}\n{len(shards)} reports merged into {_named(options.json)}\n", status


def _check_once(files: Sequence[str]) -> None:
    """Make sure that no file is given twice: one of a shard without items would be counted as another shard."""
    first: dict[str, str] = {}
    problems = []
    for path in files:
        place = os.path.realpath(path)
        if place in first:
            same = "" if first[place] == path else f", as {_named(first[place])} too"
            problems.append(f"{_named(path)} is given twice{same}; give each shard once")
        first.setdefault(place, path)
    if problems:
        raise DocumentError("\n".join(dict.fromkeys(problems)))


def _check_apart(options: argparse.Namespace) -> None:
    """Make sure that no output takes the place of a file that is read, or of the other one."""
    taken = {os.path.realpath(path): "one of the files to merge" for path in options.files}
    for option, path in (("--json", options.json), ("--junitxml", options.junitxml)):
        place = os.path.realpath(path or "")
        if path and place in taken:
            raise DocumentError(f"{option} {path!a} is {taken[place]}; give another path")
        taken[place] = f"the file of {option} too"


def _declared(path: str) -> set[str]:
    """Return the node ids among the lines of pytest."""
    found = {line for line in _read(path).decode("utf-8", "surrogateescape").splitlines() if "::" in line}
    if not found:
        raise DocumentError(f"{path!r} names no item; give the output of `pytest --kernelqual --collect-only -q`")
    return found


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise DocumentError(f"cannot read {path!r}: {why}; give a file that can be read") from error


def _named(path: str) -> str:
    return ascii(os.fspath(path))[1:-1]
