"""JSON that says one thing only: no duplicate keys, no NaN, Infinity or overflow; ASCII whatever the strings hold."""

import json
import re
from math import isfinite
from typing import Any, NoReturn, TypeVar

import msgspec

from pytest_kernelqual.errors import DocumentError

T = TypeVar("T")

_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]")
_LONGEST_VALUE = 80


class DuplicateNameError(DocumentError):
    """A name occurs twice in one object, so that it says two things."""


class WrongTypeError(DocumentError):
    """A value does not fit the type of its field."""


class _TwiceError(ValueError):
    pass


def dump(value: object, *, indent: bool = False) -> bytes:
    """Return canonical JSON with a final newline.

    Fields of structs stay as declared, keys of dicts are sorted.
    A float that is not finite becomes text inside a `detail`, which holds free facts, and an error elsewhere.

    Raises:
        DocumentError: A value has no JSON form.
    """
    try:
        plain = msgspec.to_builtins(value, order="deterministic", str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentError(f"a record cannot be written as JSON: {error}; use plain values only") from error
    try:
        text = json.dumps(plain, allow_nan=False, separators=(",", ":"))
    except ValueError:
        plain = _finite(plain, "$", free=False)
        text = json.dumps(plain, allow_nan=False, separators=(",", ":"))
    if not indent:
        return text.encode("ascii") + b"\n"
    try:
        return msgspec.json.format(text.encode("ascii"), indent=2) + b"\n"
    except msgspec.DecodeError:  # a lone surrogate, which only the slower encoder takes
        return json.dumps(plain, allow_nan=False, indent=2).encode("ascii") + b"\n"


def parse(data: bytes, source: str) -> Any:
    """Return the plain values of a JSON text.

    Raises:
        DocumentError: It is no JSON, or leaves open what it says; `source` names it in the message.
    """
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except UnicodeDecodeError as error:
        raise DocumentError(f"{source}: not UTF-8 at byte {error.start}: is it a JSON file?") from error
    except RecursionError as error:
        raise DocumentError(f"{source}: nested too deeply") from error
    except _TwiceError as error:
        raise DuplicateNameError(f"{source}: {error}") from error
    except ValueError as error:  # JSONDecodeError, the hooks below, integers beyond Python's digit limit
        raise DocumentError(f"{source}: {error}") from error


def convert(plain: object, type_: type[T] | Any, source: str) -> T:
    """Return parsed values as `type_`, without turning one type into another.

    Raises:
        WrongTypeError: A value does not fit; the message shows its path and the value.
    """
    try:
        return msgspec.convert(plain, type_, strict=True)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        path = path.rstrip("`") or "$"
        raise WrongTypeError(f"{source}: {problem} at {path}{_value_at(plain, path)}") from error
    except UnicodeError as error:  # msgspec cannot word a message about a lone surrogate
        raise WrongTypeError(f"{source}: a name or value holds a lone surrogate where a fixed word belongs") from error
    except OverflowError as error:
        raise WrongTypeError(f"{source}: a whole number is too large for a 64-bit float") from error


def _value_at(plain: Any, path: str) -> str:
    """Show the value that a msgspec path leads to, or as near to it as the path tells."""
    for name, index in _STEP.findall(path):
        if isinstance(plain, dict) and name in plain:
            plain = plain[name]
        elif isinstance(plain, list) and index.isdigit() and int(index) < len(plain):
            plain = plain[int(index)]
        else:
            break
    text = ascii(plain)
    return f": {text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + '...'}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _TwiceError(f"key {twice!a} occurs twice in one object; remove one")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; write a finite number or null")


def _finite_float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"number {text} overflows a 64-bit float; write a finite number")
    return value


def _finite(plain: Any, path: str, *, free: bool) -> Any:
    if isinstance(plain, dict):
        return {name: _finite(item, f"{path}.{name}", free=free or name == "detail") for name, item in plain.items()}
    if isinstance(plain, list | tuple):
        return [_finite(item, f"{path}[{index}]", free=free) for index, item in enumerate(plain)]
    if isinstance(plain, float) and not isfinite(plain):
        if not free:
            raise DocumentError(f"{path} is {plain!r}; a report holds finite numbers only")
        return str(plain)
    return plain
