"""Committed files as text: what they say, or the one reason why they are refused."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from pytest_kernelqual.committed.refusal import Code, Refusal
from pytest_kernelqual.committed.schema import COMMITTED_SCHEMA, CommittedFile, Row, key_text
from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import strict_json
from pytest_kernelqual.model.config import launch_option_problem
from pytest_kernelqual.model.values import encodable, scalar_problem, shown

MAX_BYTES = 4 << 20
MAX_DEPTH = 16
_METHODS = ("graph", "events", "")
"""How rows are timed; the last one is that of a row that was not."""
_LONGEST_REASON = 300
# Times are of one of the processes that gave the samples, and their ratio is estimated otherwise, though not like this.
_MOST_APART = 1.5
_CONFLICT = re.compile(rb"^(?:<{7}|={7}|>{7}|\|{7})(?: .*)?\r?$", flags=re.MULTILINE)
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', flags=re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


@lru_cache(maxsize=8)  # each row of a file is checked by an item of its own
def decode(data: bytes, path: str) -> CommittedFile | Refusal:
    """Return what a file says, or the reason why it cannot be used; never raises."""
    told = _text_problem(data)
    if told:
        return Refusal(code=told[0], path=path, text=told[1])
    try:
        plain = strict_json.parse(data, "")
        told = _schema_problem(plain)
        if told:
            return Refusal(code=told[0], path=path, text=told[1])
        file: CommittedFile = strict_json.convert(plain, CommittedFile, "")
    except strict_json.DuplicateNameError as error:
        return Refusal(code="duplicate_key", path=path, text=_reason(error))
    except strict_json.WrongTypeError as error:
        return Refusal(code="wrong_type", path=path, text=_reason(error))
    except DocumentError as error:
        return Refusal(code="not_json", path=path, text=_reason(error))
    return problem(file, path) or file


def _text_problem(data: bytes) -> tuple[Code, str] | None:
    if data.startswith(BOM_UTF8):
        return "not_json", "begins with a byte order mark; save it as UTF-8 without one"
    if len(data) > MAX_BYTES:
        return "too_large", f"has more than {MAX_BYTES} bytes; remove it and update the configs again"
    conflict = _CONFLICT.search(data)
    if conflict:
        line = data.count(b"\n", 0, conflict.start()) + 1
        return "merge_conflict", f"merge-conflict marker {conflict[0][:7].decode()} in line {line}; resolve it"
    if _depth(data) > MAX_DEPTH:
        return "too_deep", f"nested deeper than {MAX_DEPTH}, which committed configs never are; restore the file"
    return None


def _schema_problem(plain: Any) -> tuple[Code, str] | None:
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if schema == COMMITTED_SCHEMA:
        return None
    ours = isinstance(schema, str) and schema.startswith(COMMITTED_SCHEMA.rpartition("/")[0] + "/")
    hint = "it needs another version of the tool" if ours else "is it another file?"
    return "wrong_schema", f"schema {shown(schema)} is not {COMMITTED_SCHEMA!r}; {hint}"


def problem(file: CommittedFile, path: str) -> Refusal | None:
    """Say what is wrong with a file beyond the types of its fields, or None."""
    for where, text in _texts(file):
        if encodable(text) != text:
            return Refusal(code="wrong_type", path=path, text=f"{where} holds half of a surrogate pair; write it whole")
    seen: set[str] = set()
    for index, row in enumerate(file.rows):
        told = row_problem(row)
        if told:
            return Refusal(code="wrong_type", path=path, text=f"row {index + 1}, key {shown(row.key)}: {told}")
        text = key_text(row.key)
        if text in seen:
            told = f"row {index + 1} repeats key {shown(row.key)}; remove one of the two rows"
            return Refusal(code="duplicate_key", path=path, text=told, key=row.key)
        seen.add(text)
    return None


def row_problem(row: Row) -> str | None:
    """Say for what a row is refused, beyond the types of its fields, or None."""
    if row.method not in _METHODS:
        return f"method {shown(row.method)} is no way of timing; use {' or '.join(map(repr, _METHODS[:-1]))}"
    told = _names_problem("key", row.key)
    if told or row.config is None:
        return told or _null_problem(row)
    return _names_problem("config", row.config) or launch_option_problem(row.config) or _config_problem(row)


def _config_problem(row: Row) -> str | None:
    if not row.config:
        return "config {} would force nothing; write null where the fixed launch was kept"
    lacking = next(
        (name for name in ("evidence", "output", "fixed_output", "times_us", "speed_up") if not getattr(row, name)),
        None,
    )
    if lacking == "output" and row.evidence == "within_tolerance":
        lacking = None
    if lacking or row.times_us is None:
        return f"{lacking} is missing; a committed config has it"
    if row.times_us.committed is None:
        return "times_us.committed is missing; a committed config has it"
    if row.evidence == "interpreted":
        return "evidence 'interpreted' says nothing about a device"
    return _speed_up_problem(row, row.times_us.fixed / row.times_us.committed)


def _speed_up_problem(row: Row, measured: float) -> str | None:
    """Hold the speed-up against its samples, and those against the ratio of the times."""
    if row.speed_up is None or row.speed_up != min(row.speed_up_samples, default=None):
        return f"speed_up {row.speed_up} is not the smallest of speed_up_samples {shown(row.speed_up_samples)}"
    if not row.speed_up / _MOST_APART < measured < max(row.speed_up_samples) * _MOST_APART:
        return f"speed_up {row.speed_up} is not what times_us say, {measured:.3g}"
    return None


def _null_problem(row: Row) -> str | None:
    given = next((name for name in ("evidence", "output", "speed_up", "speed_up_samples") if getattr(row, name)), None)
    if given or (row.times_us and row.times_us.committed is not None):
        return f"{given or 'times_us.committed'} belongs to a config, but config is null"
    return None if row.note.strip() else "config is null and note is empty; say why the fixed launch was kept"


def _names_problem(what: str, values: Mapping[str, Any]) -> str | None:
    for name, value in values.items():
        if not name.isidentifier():
            return f"{what} name {shown(name)} is not an identifier"
        told = _value_problem(value, deep=what == "key")
        if told:
            return f"{what} value {name}={shown(value)} {told}"
    return None


def _value_problem(value: object, *, deep: bool) -> str | None:
    if deep and isinstance(value, list | tuple):
        return next((told for item in value if (told := _value_problem(item, deep=True))), None)
    return scalar_problem(value)


def _texts(value: object, where: str = "$") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _texts(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{where}[{index}]")


def _depth(data: bytes) -> int:
    """Return how deeply brackets are nested, whatever they enclose; stop where it is too deep."""
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub(b"", data)):
        depth += 1 if bracket[0] in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest


def _reason(error: Exception) -> str:
    """Return a message that quotes the file as one line of bounded length."""
    text = str(error).removeprefix(": ")
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."
