"""Concrete workloads."""

import re
from collections.abc import Mapping
from typing import Any

from pytest_kernelqual.model.values import scalar_problem, shown

AxisValue = bool | int | float | str | None | tuple[Any, ...]

# Characters that pytest, shells, XML and file names all take.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+]+")
_LONGEST_ID = 500


class Case:
    """Hold the axes of one workload, for example `Case(rows=4096, cols=4096, dtype="bfloat16")`.

    Axes are read as attributes.
    `interpreter` names the axes that are smaller where the Triton interpreter runs the case; the id stays.
    """

    def __init__(self, /, *, interpreter: Mapping[str, AxisValue] | None = None, **axes: AxisValue) -> None:
        """Keep the axes; they are checked where the spec is declared."""
        self.axes = {name: _frozen(value) for name, value in axes.items()}
        smaller: Any = {} if interpreter is None else interpreter
        self.interpreter = (
            {name: _frozen(value) for name, value in smaller.items()} if isinstance(smaller, Mapping) else smaller
        )

    @property
    def id(self) -> str:
        """Name the case as node ids do: `rows4096-cols4096-bfloat16`; a string stands without its axis name."""
        return id_of(self.axes)

    def problem(self) -> str | None:
        """Say what is wrong with an axis, or None."""
        if not isinstance(self.interpreter, Mapping):
            return f'interpreter={shown(self.interpreter)} must name axes and their values, as in {{"rows": 3}}'
        values = [*self.axes.items(), *self.interpreter.items()]
        wrong_name = next((told for name, _ in values if (told := _name_problem(name))), None)
        if wrong_name:
            return wrong_name
        for name, value in values:
            problem = _value_problem(value)
            if problem:
                return f"case axis {name}={shown(value)} {problem}"
        unknown = sorted(self.interpreter.keys() - self.axes.keys())
        if unknown:
            return f"interpreter= names {unknown[0]!r}, which is not an axis of the case; axes: {', '.join(self.axes)}"
        if len(self.id) > _LONGEST_ID:
            return f"the id of the case would have {len(self.id)} characters, at most {_LONGEST_ID}; shorten its axes"
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
        return f"Case({', '.join(f'{name}={shown(value)}' for name, value in self.axes.items())})"


def id_of(axes: Mapping[str, Any]) -> str:
    """Name axes or a key as node ids do, whatever the axes are called."""
    return "-".join(_part(name, _frozen(value)) for name, value in axes.items()) or "default"


_RESERVED = frozenset({"axes", "id", "interpreter", "problem", "under_interpreter"})


def _name_problem(name: object) -> str | None:
    if not isinstance(name, str) or not name.isidentifier():
        return f"case axis {shown(name)} is not an identifier, by which the builder could read it; rename the axis"
    if name in _RESERVED or name.startswith("_"):
        return f"case axis {name!r} is a reserved name; rename the axis"
    return None


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value


def _value_problem(value: object) -> str | None:
    """Say why an axis cannot hold the value, as the rest of a sentence."""
    if isinstance(value, tuple):
        told = ((item, _value_problem(item)) for item in value)
        return next(
            (why if isinstance(item, tuple) else f"holds {shown(item)}, which {why}" for item, why in told if why), None
        )
    problem = scalar_problem(value)
    dtype = type(value).__module__ == "torch" and type(value).__name__ == "dtype"
    return 'is a torch.dtype; name it, for example "bfloat16"' if dtype else problem


def _part(name: str, value: AxisValue) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, tuple):
        text = name + "x".join(str(item) for item in value)
    else:
        text = f"{name}{value}".replace("-", "m")
    return _UNSAFE.sub("_", text)
