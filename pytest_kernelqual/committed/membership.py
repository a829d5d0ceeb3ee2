"""Rows of a committed file against what the code declares today."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_kernelqual.committed.refusal import Code, Refusal
from pytest_kernelqual.committed.schema import CommittedFile, Key, Row, key_text
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.values import shown


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What one spec declares today."""

    space: str
    """Its selection-space token."""
    candidates: Sequence[Config]
    keys: Sequence[Key]
    """The keys of its cases."""


def row_refusals(file: CommittedFile, path: str, declared: Declared) -> list[Refusal]:
    """Return why rows of a file are not used: every reason of every row, in order of the rows."""
    keys = {key_text(key): key for key in declared.keys}
    candidates = set(declared.candidates)
    return [
        Refusal(code=code, path=path, text=text, key=row.key)
        for row in file.rows
        for code, text in _reasons(file, row, declared, keys, candidates)
    ]


def missing_keys(file: CommittedFile | None, declared: Declared) -> list[Key]:
    """Return the declared keys, each once, that have no row."""
    present = {key_text(row.key) for row in file.rows} if file else set()
    keys = {key_text(key): key for key in declared.keys}
    return [key for text, key in keys.items() if text not in present]


def _reasons(
    file: CommittedFile, row: Row, declared: Declared, keys: dict[str, Key], candidates: set[Config]
) -> Iterable[tuple[Code, str]]:
    if key_text(row.key) not in keys:
        near = next((key for key in keys.values() if _loosely(key) == _loosely(row.key)), None)
        if near is not None:
            yield "wrong_type", f"key {shown(row.key)} is not {shown(dict(near))}: its types differ; correct the row"
        else:
            yield "unknown_key", f"no case has key {shown(row.key)}; remove the row or declare the case"
    if file.space_of(row) != declared.space:
        told = "the candidates, the kernel or its launch code changed since the config was chosen"
        yield "other_space", f"row {shown(row.key)}: {told}; run --kernelqual-update"
    if row.config is not None and Config(row.config) not in candidates:
        config = Config(row.config)
        near = next((item for item in declared.candidates if _loosely(item) == _loosely(config)), None)
        if near is not None:
            yield "wrong_type", f"config {config.id} is not candidate {near.id}: its types differ; correct the row"
        else:
            yield (
                "unknown_candidate",
                f"config {config.id} is none of the {len(candidates)} candidates of today; run --kernelqual-update",
            )


def _loosely(values: Key | Config) -> dict[str, str]:
    """Return values by what they look like: `"64"`, 64 and 64.0 alike, and `true` and 1."""
    return {name: _look(value) for name, value in values.items()}


def _look(value: object) -> str:
    if isinstance(value, list | tuple):
        return str([_look(item) for item in value])
    text = str(value)
    lowered = {"True": "1", "False": "0", "true": "1", "false": "0", "None": "null"}.get(text, text)
    return lowered.removesuffix(".0")
