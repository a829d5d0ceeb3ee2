"""`kernelqual explain`: the whole story of one candidate."""

import argparse
from typing import Any

from pytest_kernelqual.commands import candidate
from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import OK, UNUSABLE
from pytest_kernelqual.files import strict_json
from pytest_kernelqual.report.explanation import explain
from pytest_kernelqual.report.explanation_text import explanation_text


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "explain",
        help="tell all that is known of one candidate",
        **described(
            "Tell the whole story of one candidate of a report: config, resources, evidence and why it is not "
            "stronger, bytes, inputs, times.",
            ["kernelqual explain qualified-configurations.json --candidate num_warps=8,num_stages=1"],
            {
                OK: "told, whatever the candidate's outcome is",
                UNUSABLE: "wrong usage, a file that cannot be read, or an id that is unknown or in several cases "
                "(near or possible ones are listed)",
            },
        ),
    )
    candidate.add_arguments(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what to print (default: text)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> tuple[str, int]:
    report, chosen = candidate.chosen(options)
    told = explain(report, chosen)
    if options.format == "json":
        return strict_json.dump(told, indent=True).decode("ascii"), OK
    return f"{explanation_text(told)}\n", OK
