"""How far numbers may be apart where equal bytes are too much to ask."""

import math
from dataclasses import dataclass

from pytest_kernelqual.model.values import shown

_MOST_ULP = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Hold the distance that an element of floating type may have from the expected one.

    It is within when the absolute difference is at most `atol + rtol * |expected|`, or when it is at most `ulp` units
    in the last place of the output's type away.
    Values are checked where the spec is declared, so that a wrong one fails one spec and not its whole file.
    """

    rtol: float = 0.0
    atol: float = 0.0
    ulp: int = 0

    def problem(self) -> str | None:
        """Say what is wrong with a value, or None."""
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value < math.inf:
                return f"Tolerance has {name}={shown(value)}; it must be a finite number of at least 0"
        if self.rtol >= 1:
            return f"Tolerance has rtol={shown(self.rtol)}, within which zeros are equal to anything; use less than 1"
        if type(self.ulp) is not int or not 0 <= self.ulp <= _MOST_ULP:
            return f"Tolerance has ulp={shown(self.ulp)}; it must be a whole number from 0 to 2**53"
        if not (self.rtol or self.atol or self.ulp):
            return "Tolerance allows nothing, and without one equal bytes are asked for; give it rtol, atol or ulp"
        return None

    def __str__(self) -> str:
        """Return what it allows: `rtol=0.001, ulp=2`."""
        return ", ".join(f"{name}={getattr(self, name):g}" for name in ("rtol", "atol", "ulp") if getattr(self, name))
