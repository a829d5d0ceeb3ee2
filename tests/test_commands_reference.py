"""`docs/commands.md` and every command's `--help`."""

import pytest
from commands_reference import FILE, commands, render

from pytest_kernelqual.cli import command_parser

COMMANDS = commands(command_parser())


def test_page_is_what_the_parsers_say() -> None:
    """`python tests/commands_reference.py` writes it anew."""
    assert FILE.read_text() == render(command_parser())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_whole(name: str) -> None:
    """What it does, each argument, an example and the exit statuses."""
    parser, summary = COMMANDS[name]
    assert summary
    text = parser.format_help()
    assert parser.description
    assert parser.description in text
    assert f"  kernelqual {name}" in text.split("example", 1)[1]
    assert "exit status:\n  0  " in text
    assert all(action.help for action in parser._actions)
    assert max(map(len, (parser.epilog or "").splitlines())) <= 120
