"""`kernelqual diff`: what changed from one report to another, and whether it got worse."""

import argparse
from pathlib import Path
from typing import Any, cast

from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import FAILING, OK, UNUSABLE
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import strict_json
from pytest_kernelqual.report.change import KINDS, WORSE, ChangeKind, Diff
from pytest_kernelqual.report.changes import MARGIN, changes
from pytest_kernelqual.report.changes_text import changes_text
from pytest_kernelqual.report.markdown import COMMENT_CHARACTERS, SUMMARY_CHARACTERS, diff_markdown
from pytest_kernelqual.report.named import read_all

_NOTHING = "nothing"


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "diff",
        help="tell what changed from one report to another, and whether it got worse",
        **described(
            "Tell what changed from BASE to HEAD: newly qualified, disqualified, out of resources, slower, faster, "
            "re-tuned, evidence lost or gained, gates weakened, rows, kernels and cases dropped or added. "
            "Speed is judged by the ratio of committed to fixed time of each run, never by times of two runs.",
            [
                "kernelqual diff main.json qualified-configurations.json",
                "kernelqual diff main.json pull.json --fail-on disqualified,slower,production_bytes",
            ],
            {
                OK: "HEAD is not worse",
                FAILING: "it is: something changed of a kind that --fail-on names",
                UNUSABLE: "wrong usage, a report cannot be read or is empty, or they have no kernel in common",
            },
        ),
    )
    parser.add_argument("base", metavar="BASE", help="the qualified-configurations.json to compare with")
    # Not required by argparse, since a folder alone is another question, which is told.
    parser.add_argument("head", metavar="HEAD", nargs="?", help="the one that may be worse")
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="default: text")
    add_judging(parser)
    add_limit(parser)
    parser.set_defaults(run=_run)


def add_judging(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say what is worse."""
    parser.add_argument(
        "--fail-on",
        metavar="KIND,...",
        type=_kinds,
        default=WORSE,
        help=f"kinds of changes that make HEAD worse, of {', '.join(KINDS)}; or {_NOTHING} "
        f"(default: those up to {WORSE[-1]})",
    )
    parser.add_argument(
        "--margin",
        metavar="PERCENT",
        type=_percent,
        default=MARGIN,
        help=f"how much slower or faster than before is told (default: {MARGIN * 100:g})",
    )


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Declare how long Markdown may become."""
    parser.add_argument(
        "--limit",
        metavar="CHARACTERS",
        type=_characters,
        default=COMMENT_CHARACTERS,
        help=f"most characters of markdown (default: {COMMENT_CHARACTERS}, as of a comment on GitHub; "
        f"a step summary may have {SUMMARY_CHARACTERS})",
    )


def _run(options: argparse.Namespace) -> tuple[str, int]:
    _check_two_reports(options.base, options.head)
    base, head = read_all([options.base, options.head])
    found = changes(base, head, fail_on=options.fail_on, margin=options.margin)
    return _rendered(found, options), FAILING if found.worse else OK


def _check_two_reports(base: str, head: str | None) -> None:
    """Make sure that two reports are given, and name the command for folders of them."""
    folder = next((path for path in (base, head) if path is not None and Path(path).is_dir()), None)
    if folder is not None:
        raise DocumentError(
            f"cannot read {folder!a}: it is a folder, and diff compares two reports, BASE and HEAD; "
            f"`kernelqual history {ascii(folder)[1:-1]}` tells how committed configs moved over all reports of a folder"
        )
    if head is None:
        raise DocumentError(f"only BASE {base!a} is given; give HEAD, the report that may be worse, too")


def _rendered(diff: Diff, options: argparse.Namespace) -> str:
    if options.format == "markdown":
        return diff_markdown(diff, limit=options.limit)
    if options.format == "json":
        return strict_json.dump(diff, indent=True).decode("ascii")
    return changes_text(diff) + "\n"


def _kinds(text: str) -> tuple[ChangeKind, ...]:
    names = [] if text == _NOTHING else text.split(",")
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!a} is no kind of change; use {', '.join(KINDS)}, or {_NOTHING}")
    return cast("tuple[ChangeKind, ...]", tuple(names))


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:  # noqa: PLR2004 - percent
        raise argparse.ArgumentTypeError(f"{text!a} is no percentage from 0 to 100")
    return value / 100


def _characters(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!a} is no number of characters")
    return int(text)
