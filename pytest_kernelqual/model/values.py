"""What a declared value may be, and how any object is shown in one line of a message."""

from collections.abc import Sequence
from typing import Any

# Node ids, file names and environment variables are made of values, so they must stay short.
_MOST_CHARACTERS = 200
_LONGEST_SHOWN = 100


def scalar_problem(value: object) -> str | None:
    """Say why `value` cannot stand in an axis or a config, as the rest of a sentence; None when it can."""
    if not (value is None or type(value) in (bool, int, float, str)):
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        return f"is a {kind}; use a plain bool, int, float, str or None"
    if isinstance(value, float) and not abs(value) < float("inf"):
        return "is not finite; use a finite number"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return "does not fit 64 bits; use a whole number from -2**63 to 2**63 - 1"
    if isinstance(value, str):
        if len(value) > _MOST_CHARACTERS:
            return f"has {len(value)} characters; use at most {_MOST_CHARACTERS}"
        if encodable(value) != value:
            return "holds half of a surrogate pair, which no file can hold; use whole characters"
    return None


def shown(value: object) -> str:
    """Return the repr of any object, in one line of at most 100 characters."""
    if isinstance(value, int) and value.bit_length() > _LONGEST_SHOWN:
        return f"<int of {value.bit_length()} bits>"
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - the object may be anything, and the message must still be made
        text = f"<{type(value).__qualname__} whose repr raises {type(error).__name__}>"
    text = " ".join(encodable(text).split())
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def exact(value: object) -> str:
    """Return a text that differs for values of one type that differ; never raises."""
    if isinstance(value, int):
        return hex(value)  # unlike repr without a limit of digits
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - such a value is refused where the spec is declared
        return f"<{id(value)}>"


def said(error: BaseException) -> str:
    """Return what an error says; never raises."""
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001 - the error may be anybody's, and the message must still be made
        return f"<its text raises {type(another).__name__}>"


def encodable(text: str) -> str:
    """Return the text with halves of surrogate pairs, which no message or file can hold, spelt out."""
    return text.encode(errors="backslashreplace").decode()


def names(value: Any) -> tuple[str, ...]:
    """Return what was given as one name or a sequence of names."""
    return (value,) if isinstance(value, str) else tuple(value) if is_sequence(value) else ()


def sequence(value: Any) -> tuple[Any, ...]:
    """Return what was given as one value or a sequence of values."""
    return tuple(value) if is_sequence(value) else (value,)


def is_sequence(value: object) -> bool:
    """Tell whether several values were given."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
