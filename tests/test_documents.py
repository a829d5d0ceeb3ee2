"""Commands, options and ini values in the documents are such as exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import options_reference
import pytest
from test_packaging import DOCS, OTHERS, README

from pytest_kernelqual.cli import command_parser

FILES = [README, *DOCS, *OTHERS]
NAMED = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def blocks(file: Path, *kinds: str) -> Iterator[str]:
    """Yield the lines of code blocks, comments aside and continued lines as one."""
    text = file.read_text()
    for kind in kinds:
        for block in re.findall(rf"^ *```{kind}\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL):
            yield from block.replace("\\\n", " ").splitlines()


def commands(file: Path) -> Iterator[list[str]]:
    """Yield the arguments of each `kernelqual` that is to be typed."""
    for line in blocks(file, "sh", "yaml"):
        for part in re.split(r"&&|\|", line):
            words = shlex.split(re.sub(r">.*", "", part).strip().removeprefix("- "), comments=True)
            if words[:1] == ["kernelqual"]:
                yield words[1:]


@NAMED
def test_commands_are_such_as_can_be_typed(file: Path) -> None:
    """The parser of the command takes them."""
    for arguments in commands(file):
        command_parser().parse_args(arguments)


def test_there_are_commands() -> None:
    """The test above has something to look at."""
    assert sum(len(list(commands(file))) for file in FILES) > 15


@NAMED
def test_options_exist(file: Path) -> None:
    """And so do ini values."""
    known = set(re.findall(r"`(?:--)?(kernelqual[\w-]*)", options_reference.render()))
    options = set(re.findall(r"(?<![\w.])--(kernelqual(?:-[a-z]+)*)\b", file.read_text()))
    inis = {name for line in blocks(file, "ini") for name in re.findall(r"^(kernelqual_\w+)", line)}
    assert (options | inis) - known == set()
