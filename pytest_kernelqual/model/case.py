"""Concrete workloads."""

import re
from collections.abc import Mapping
from typing import Any

AxisValue = bool | int | float | str | None | tuple[Any, ...]

# Characters that pytest, shells, XML and file names all take.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+]+")


class Case:
    """Hold the axes of one workload, for example `Case(rows=4096, cols=4096, dtype="bfloat16")`.

    Axes are read as attributes.
    `interpreter` names the axes that are smaller where the Triton interpreter runs the case; the id stays.
    """

    def __init__(self, *, interpreter: Mapping[str, AxisValue] | None = None, **axes: AxisValue) -> None:
        """Keep the axes; they are checked where the spec is declared."""
        self.axes = {name: _frozen(value) for name, value in axes.items()}
        self.interpreter = {name: _frozen(value) for name, value in (interpreter or {}).items()}

    @property
    def id(self) -> str:
        """Name the case as node ids do: `rows4096-cols4096-bfloat16`; a string stands without its axis name."""
        return "-".join(_part(name, value) for name, value in self.axes.items()) or "default"

    def problem(self) -> str | None:
        """Say what is wrong with an axis, or None."""
        for name, value in [*self.axes.items(), *self.interpreter.items()]:
            if name in _RESERVED or name.startswith("_"):
                return f"case axis {name!r} is a reserved name; rename the axis"
            if not _plain(value):
                return (
                    f"case axis {name}={value!r} is a {type(value).__name__}; "
                    'use bool, int, float, str, None or a tuple of these (a dtype by name, for example "bfloat16")'
                )
        unknown = sorted(self.interpreter.keys() - self.axes.keys())
        if unknown:
            return f"interpreter= names {unknown[0]!r}, which is not an axis of the case; axes: {', '.join(self.axes)}"
        return None

    def under_interpreter(self) -> "Case":
        """Return the case with the smaller axes that it declares for the interpreter."""
        return Case(**{**self.axes, **self.interpreter})

    def __getattr__(self, name: str) -> Any:
        """Read an axis."""
        axes: dict[str, Any] = self.__dict__.get("axes", {})
        if name in axes:
            return axes[name]
        raise AttributeError(f"the case has no axis {name!r}; axes: {', '.join(axes) or 'none'}")

    def __repr__(self) -> str:
        """Show the call that makes this case."""
        return f"Case({', '.join(f'{name}={value!r}' for name, value in self.axes.items())})"


_RESERVED = frozenset({"axes", "id", "interpreter", "problem", "under_interpreter"})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value


def _plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_plain(item) for item in value)
    if isinstance(value, float):
        return value == value and abs(value) != float("inf")  # noqa: PLR0124 - NaN
    return value is None or type(value) in (bool, int, str)


def _part(name: str, value: AxisValue) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, tuple):
        text = name + "x".join(str(item) for item in value)
    else:
        text = f"{name}{value}".replace("-", "m")
    return _UNSAFE.sub("_", text)
