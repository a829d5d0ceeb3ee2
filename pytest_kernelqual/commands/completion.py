"""`kernelqual completion`: shell code that completes commands, options, files, and names that stand in a report."""

import argparse
import os
from collections.abc import Callable
from typing import Any

from pytest_kernelqual.commands.declaring import described
from pytest_kernelqual.commands.exit_status import OK
from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.model.record import Document
from pytest_kernelqual.report import document

Completer = Callable[..., list[str]]

SHELLS = ("bash", "zsh", "fish")


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "completion",
        help="print the code that completes this command in a shell",
        **described(
            "Print the code by which a shell completes commands, options and files, and the ids of candidates "
            "from the report that is named. zsh needs its compinit before.",
            ['eval "$(kernelqual completion bash)"', "kernelqual completion fish | source"],
            {OK: "printed"},
        ),
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")
    parser.set_defaults(run=_run)


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions, and end; return at once where none asks."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # noqa: PLC0415 - needed only there

        argcomplete.autocomplete(parser, always_complete_options=False)


def from_report(names: Callable[[Document, argparse.Namespace], list[str]]) -> Completer:
    """Return a completer of names that stand in the report `file`; it knows none where that cannot be read."""

    def completer(*, parsed_args: argparse.Namespace, **_asked: Any) -> list[str]:
        try:
            return names(document.read(parsed_args.file), parsed_args)
        except (KernelqualError, TypeError):  # TypeError: no file is named yet
            return []

    return completer


def _run(options: argparse.Namespace) -> tuple[str, int]:
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - needed only here

    return shellcode(["kernelqual"], shell=options.shell), OK
