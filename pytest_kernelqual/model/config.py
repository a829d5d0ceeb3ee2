"""Launch configs and the enumeration of candidates."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pytest_kernelqual.model.values import exact, scalar_problem, shown

Scalar = bool | int | float | str | None

# A string that cannot be taken for another value stands in an id without quotes.
_BARE = re.compile(r"(?!(True|False|None|nan|inf)$)[A-Za-z_][A-Za-z0-9_.+-]*")


# Values that each launch option can have on some device.
_LAUNCH_OPTIONS: Mapping[str, Collection[int]] = {
    "num_warps": (1, 2, 4, 8, 16, 32, 64),
    "num_ctas": (1, 2, 4, 8, 16),
    "num_stages": range(101),
    "maxnreg": range(1, 257),
}


class Config(Mapping[str, Scalar]):
    """Hold constexpr meta-parameters and launch options of one candidate, for example `Config(BLOCK=64, num_warps=4)`.

    Equality and hash do not depend on the order of names, and keep `True`, `1` and `1.0` apart.
    Values are checked where the spec is declared, so that one wrong config fails one spec and not its whole file.
    """

    __slots__ = ("_identity", "_not_a_mapping", "_values")

    def __init__(self, values: Mapping[str, Scalar] | None = None, /, **named: Scalar) -> None:
        """Take the values of `values`, then those given by name."""
        given: Any = {} if values is None else values
        self._not_a_mapping = "" if isinstance(given, Mapping) else shown(given)
        self._values: dict[str, Scalar] = {**({} if self._not_a_mapping else given), **named}
        self._identity = frozenset((name, type(value), exact(value)) for name, value in self._values.items())

    @property
    def id(self) -> str:
        """Name the config as reports do: `num_warps=8,num_stages=1`, in declared order."""
        return ",".join(f"{name}={_text(value)}" for name, value in self._values.items()) or "default"

    def problem(self) -> str | None:
        """Say what is wrong with a name or value, or None."""
        if self._not_a_mapping:
            return f"Config({self._not_a_mapping}) is not made of names and values; write Config(BLOCK=64)"
        for name, value in self._values.items():
            if not isinstance(name, str) or not name.isidentifier():
                return f"config name {shown(name)} is not an identifier"
            problem = scalar_problem(value)
            if problem:
                return f"config value {name}={shown(value)} {problem}"
        return None

    def __getitem__(self, name: str) -> Scalar:
        """Return the value of `name`."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over names in declared order."""
        return iter(self._values)

    def __len__(self) -> int:
        """Count the names."""
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """Compare names, types and values."""
        return self._identity == other._identity if isinstance(other, Config) else NotImplemented

    def __hash__(self) -> int:
        """Hash names, types and values."""
        return hash(self._identity)

    def __repr__(self) -> str:
        """Show the call that makes this config."""
        return f"Config({', '.join(f'{name}={shown(value)}' for name, value in self._values.items())})"


def grid(**axes: Sequence[Scalar]) -> tuple[Config, ...]:
    """Enumerate the product of `axes`; the last axis varies fastest.

    An empty axis gives no configs, which the spec reports as an empty set of candidates.
    """
    values: list[Sequence[Any]] = [list(axis) if _is_axis(axis) else [axis] for axis in axes.values()]
    return tuple(Config(dict(zip(axes, row, strict=True))) for row in product(*values))


def launch_option_problem(config: Mapping[str, Scalar]) -> str | None:
    """Say which launch option of a config that is to steer production has no value that a launch can have, or None."""
    for name, value in config.items():
        allowed = _LAUNCH_OPTIONS.get(name)
        # No limit of registers is `maxnreg=None`; True and 8.0 are no whole numbers.
        if allowed is None or (name == "maxnreg" and value is None) or (type(value) is int and value in allowed):
            continue
        low, high = min(allowed), max(allowed)
        kind = "whole number" if len(allowed) == high - low + 1 else "power of two"
        return f"config value {name}={shown(value)} is no {kind} from {low} to {high}; undo the edit, or update the row"
    return None


def _is_axis(axis: object) -> bool:
    return isinstance(axis, Sequence | range) and not isinstance(axis, str)


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) and _BARE.fullmatch(value) else ascii(value)
