"""`docs/commands.md`, made of the command's own parsers; `python tests/commands_reference.py` writes it anew."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from pytest_kernelqual.cli import command_parser

FILE = Path(__file__).parent.parent / "docs" / "commands.md"

_HEAD = """# Commands

`kernelqual` works with the files of runs, without pytest, torch or a GPU, but for what its text names.
`python -m pytest_kernelqual` is the same program.
Exit status 130 is that of a command that Ctrl-C ended.
"""


def commands(parser: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Return the parser and the one-line help of each command."""
    subparsers = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    told = {one.dest: one.help or "" for one in subparsers._choices_actions}
    return {name: (made, told[name]) for name, made in subparsers.choices.items()}


def render(parser: argparse.ArgumentParser) -> str:
    """Return the page."""
    found = commands(parser)
    index = [f"* [`{name}`](#kernelqual-{name}): {told}" for name, (_, told) in found.items()]
    parts = [_HEAD, "\n".join(index)]
    for name, (made, _) in found.items():
        parts += [f"\n## kernelqual {name}\n", " ".join((made.description or "").split())]
        rows = [*_rows(made)]
        if rows:
            parts.append("\n".join(["", "| argument | what it is |", "| --- | --- |", *rows]))
        parts.append(f"\n```text\n{made.epilog}\n```")
    return "\n".join(parts) + "\n"


def _rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
        value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
        if action.option_strings and action.nargs != 0:
            names += f" `{value or action.dest.upper()}`"
        text = (action.help or "").replace("%(default)s", str(action.default)).replace("|", "\\|")
        needed = " (required)" if action.option_strings and action.required else ""
        yield f"| {names.replace('|', chr(92) + '|')}{needed} | {text} |"


if __name__ == "__main__":
    FILE.write_text(render(command_parser()))
