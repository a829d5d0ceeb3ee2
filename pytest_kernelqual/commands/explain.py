"""`kernelqual explain`: the whole story of one candidate."""

import argparse
from pathlib import Path
from typing import Any

from pytest_kernelqual.commands import candidate
from pytest_kernelqual.commands.asking import ask
from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import OK, UNUSABLE
from pytest_kernelqual.errors import KernelqualError, SettingsError
from pytest_kernelqual.files import strict_json
from pytest_kernelqual.model.code import CodeRead, ReadCode
from pytest_kernelqual.model.record import Document
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.targets import find_target
from pytest_kernelqual.processes.device_process import DeviceProcess
from pytest_kernelqual.report.choosing import Chosen, declared
from pytest_kernelqual.report.code_differences import CodeDifference, code_difference
from pytest_kernelqual.report.explanation import explain, target_of
from pytest_kernelqual.report.explanation_text import explanation_text


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "explain",
        help="tell all that is known of one candidate",
        **described(
            "Tell the whole story of one candidate of a report: config, resources, evidence and why it is not "
            "stronger, bytes, inputs, times; and how its IR, PTX and SASS differ from the fixed launch's, where "
            "torch and triton are installed and the spec is at hand: a process of its own imports it and compiles.",
            [
                "kernelqual explain qualified-configurations.json --candidate num_warps=8,num_stages=1",
                "kernelqual explain qualified-configurations.json --candidate num_warps=8 --target cuda:90",
            ],
            {
                OK: "told, whatever the candidate's outcome is",
                UNUSABLE: "wrong usage, a file that cannot be read, or an id that is unknown or in several cases "
                "(near or possible ones are listed)",
            },
        ),
    )
    candidate.add_arguments(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what to print (default: text)")
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="compile for this target (cuda:90, hip:gfx942, a product name) to compare the code; "
        "default: the report's device",
    )
    parser.add_argument("--no-code", dest="code", action="store_false", help="import and compile nothing")
    parser.add_argument(
        "--lines",
        metavar="N",
        type=int,
        default=20,
        help="lines shown of each difference of code, 0 for all (default: 20)",
    )
    candidate.add_root(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> tuple[str, int]:
    if options.lines < 0:
        raise SettingsError(f"--lines {options.lines} is negative; give the number of lines, or 0 for all")
    report, chosen = candidate.chosen(options)
    code, why = None, "--no-code was given"
    if options.code:
        # What was asked for by name must be told, or it is an error.
        name = find_target(options.target).name if options.target is not None else _target(report)
        try:
            code, why = _compared(chosen, Path(options.root), name)
        except KernelqualError as error:
            if options.target is not None:
                raise
            why = str(error)
    told = explain(report, chosen, code, why)
    if options.format == "json":
        return strict_json.dump(told, indent=True).decode("ascii"), OK
    return f"{explanation_text(told, options.lines)}\n", OK


def _target(report: Document) -> str:
    """Return the compile target that the device of a report is; empty where there is none."""
    target = target_of(report.environment.device) if report.environment is not None else None
    return target.name if target is not None else ""


def _compared(chosen: Chosen, root: Path, target: str) -> tuple[CodeDifference | None, str]:
    """Compile both launches for a target in a process of its own; return what differs, or why nothing was compared."""
    if not target:
        raise SettingsError("the report is of no device that is compiled for; --target cuda:90, say, names one")
    where = declared(chosen, root)
    settings = Settings(root_dir=str(root.resolve()), device=f"target:{target}")
    device = DeviceProcess(settings)
    try:
        request = ReadCode(
            path=str(where.path),
            spec=where.spec,
            case=chosen.case.id,
            profile=where.input_set.profile,
            seed_index=where.input_set.seed,
            config=chosen.candidate.config,
        )
        code = ask(device, settings, request, CodeRead)
    finally:
        device.close()
    return (None, code.problem) if code.problem else (code_difference(target, code), "")
