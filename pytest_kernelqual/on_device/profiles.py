"""Values that expose differences which normal inputs hide, each a function of a key and an element's place alone.

All of it is integer arithmetic on ordinals of values, so that every device makes the same bytes.
"""

from collections.abc import Callable
from functools import cache, partial
from math import prod

import torch

from pytest_kernelqual.on_device import streams
from pytest_kernelqual.on_device.ordinals import Ordinals
from pytest_kernelqual.on_device.snapshots import Draw
from pytest_kernelqual.on_device.streams import Key

_63_BITS = (1 << 63) - 1
_31_BITS = (1 << 31) - 1
_OCTAVES = 20
"""Over so many, sums of even a few values with 8 bits of mantissa do not fit the 24 bits of a float32."""
_KEPT_OCTAVES = 3
_MODERATE_EXPONENT = 10
_DISTINCT = 3
_ONE_IN = 8
_LANES = 3
"""Those of which kinds of values draw."""

_Part = Callable[[torch.Tensor], torch.Tensor]


def float_draw(
    profile: str, key: Key, shape: tuple[int, ...], values: Ordinals, device: torch.device, *, first: bool
) -> Draw | None:
    """Return what draws bit patterns (int64) of a floating tensor; None where the profile leaves it as it is.

    Args:
        profile: One of the floating profiles.
        key: Of the tensor.
        shape: Its sizes; the last axis holds the elements of a row.
        values: What it may hold.
        device: Where to draw.
        first: Whether no tensor of the case has taken the profile before.
    """
    within = _Within(key, shape, values, first=first)
    parts: dict[str, _Part] = {
        "cancelling": within.cancelling,
        "mixed": within.mixed,
        "exponents": within.exponents,
        "constant": within.constant,
        "equal_rows": within.equal_rows,
        "ties": within.ties,
        "denormals": within.denormals,
        "boundaries": within.boundaries,
        "one_hot": within.one_hot,
        "nonfinite": within.nonfinite,
    }
    part = parts.get(profile)
    if part is None or not within.takes(profile):
        return None

    def draw(start: int, count: int) -> torch.Tensor:
        return values.bits(part(torch.arange(start, start + count, device=device)))

    return draw


def integer_draw(profile: str, key: Key, size: int, span: int, device: torch.device) -> Draw | None:
    """Return what draws integers of [0, span) for `size` elements; None where the profile leaves them as they are."""
    match profile:
        case "extremes" | "repeats" | "mixed":
            ends = torch.tensor([0, _signed_64(span - 1)], device=device)
            some = streams.integers(key, 0, _DISTINCT, device, span)
            known = {"extremes": ends, "repeats": some}.get(profile, torch.cat([ends, some]))
            return lambda start, count: known[streams.integers(key, start, count, device, len(known))]
        case "sorted" | "reversed":
            values = streams.integers(key, 0, size, device, span).sort(descending=profile == "reversed").values
            return lambda start, count: values[start : start + count]
    return None


class _Within:
    """Values of one floating tensor by the places (int64) of its elements, in row-major order."""

    def __init__(self, key: Key, shape: tuple[int, ...], values: Ordinals, *, first: bool) -> None:
        self._key = key
        self._shape = shape or (1,)
        self._size = prod(self._shape)
        self._row = max(self._shape[-1], 1)
        self._values = values
        self._first = first
        # Products of two values and sums of thousands of them are finite, in float16 (2**6) only just.
        self._top = min(values.most_exponent * 7 // 16, values.most_exponent - 1)
        self._places = torch.empty(0)
        self._known: dict[int, torch.Tensor] = {}

    def takes(self, profile: str) -> bool:
        """Tell whether the bounds leave the profile anything to choose from."""
        values = self._values
        if profile == "denormals":
            return values.nearest < 1 << values.mantissa_bits
        if profile == "nonfinite":
            return not values.bounded and "fnuz" not in str(values.dtype)
        return True

    def mixed(self, at: torch.Tensor) -> torch.Tensor:
        """Rows of most other profiles in turn, without the largest values; of few rows, parts of each take turns."""
        kinds = (self.exponents, self.ties, self.denormals, self._low_rows, self._tame_boundaries, self.one_hot)
        rows = self._size // self._row
        part = self._row if rows >= len(kinds) else -(-self._row // len(kinds))
        turn = at // part % len(kinds)
        found = torch.empty_like(at)
        words = [self._words(lane, at) for lane in range(_LANES)]  # drawn together, since kinds ask for few each
        for number, kind in enumerate(kinds):
            places = turn.eq(number).nonzero().squeeze(1)  # to draw all of it by each kind takes several times as long
            some = at.index_select(0, places)
            self._places = some
            self._known = {lane: drawn.index_select(0, places) for lane, drawn in enumerate(words)}
            found.index_copy_(0, places, kind(some))
        return found

    def exponents(self, at: torch.Tensor) -> torch.Tensor:
        """Every exponent is as likely as any other; patterns of equal spacing do that."""
        return self._spread(at, self._top, None)

    def cancelling(self, at: torch.Tensor) -> torch.Tensor:
        """The halves of each axis cancel, but for small elements: a sum is as small as the rounding on the way.

        Of the first tensor, that is. The halves of further ones are the same instead, so that products with the first
        one cancel as well.
        """
        base, odd, alone = self._folded(at)
        found = self._moderate(base)
        if not self._first:
            return found
        negative, lowest = found < 0, partial(self._lowest, self._moderate_exponent)
        large = torch.where(negative, ~found, found) >= lowest(_OCTAVES - _KEPT_OCTAVES)
        halves = torch.where(odd & large, self._values.mirrored(found), found)
        return torch.where(alone, self._fitted(torch.full_like(at, lowest(_OCTAVES)), negative ^ odd), halves)

    def constant(self, at: torch.Tensor) -> torch.Tensor:
        """One large value with a long mantissa: narrow accumulators overflow, variances vanish, maxima tie."""
        return self._spread(torch.zeros_like(at), self._top, 1)

    def equal_rows(self, at: torch.Tensor) -> torch.Tensor:
        """Each row holds one value of its own."""
        return self._moderate(at // self._row)

    def _low_rows(self, at: torch.Tensor) -> torch.Tensor:
        """Rows of one negative value: below the zeros with which padding lanes are filled."""
        found = self.equal_rows(at)
        return self._values.signed(torch.where(found < 0, ~found, found), torch.ones_like(at, dtype=torch.bool))

    def ties(self, at: torch.Tensor) -> torch.Tensor:
        """Half-way between two values of a narrower dtype, or between two whole numbers."""
        mantissa = self._values.mantissa_bits
        least, most = max(-2, 1 - self._values.most_exponent), min(6, self._values.most_exponent - 1)
        choice = self._choice(at)
        exponent = choice % (most - least + 1) + least
        kept = _table(tuple(width for width in (2, 3, 7, 10, 23) if width < mantissa) or (0,), at.device)
        whole = exponent.clamp(0, mantissa - 1)  # mantissa bits before the binary point
        which = (choice >> 8) % (len(kept) + 1)
        bits = torch.where(which == len(kept), whole, kept[which.clamp(max=len(kept) - 1)])
        unit = torch.ones_like(bits) << (mantissa - bits)
        fraction = self._long(at) & ((1 << mantissa) - 1)
        tie = fraction - fraction % unit + unit // 2
        magnitude = (exponent - least << mantissa) + self._values.power(least) + tie
        return self._fitted(magnitude, choice >> 30 & 1 == 1)

    def denormals(self, at: torch.Tensor) -> torch.Tensor:
        """Zeros of both signs, denormal numbers of every size and the least normal ones."""
        mantissa = self._values.mantissa_bits
        choice = self._choice(at)
        magnitude = (self._long(at) & ((2 << mantissa) - 1)) >> choice % (mantissa + 2)
        return self._fitted(magnitude, choice >> 30 & 1 == 1)

    def boundaries(self, at: torch.Tensor) -> torch.Tensor:
        """Where a dtype's ranges begin and end; every other row is without its largest values, so that sums exist."""
        tame, choice = self._tame_boundaries(at), self._choice(at)
        largest = self._fitted(self._values.largest - (choice >> 8 & 1), choice >> 30 & 1 == 1)
        wild = (choice >> 9) % _ONE_IN == 0
        return torch.where(wild & (self._words(3, at // self._row) & 1 == 0), largest, tame)

    def _tame_boundaries(self, at: torch.Tensor) -> torch.Tensor:
        values, mantissa = self._values, self._values.mantissa_bits
        one = values.power(0)
        integers_end = values.power(min(mantissa + 1, values.most_exponent))
        known = (0, 1, (1 << mantissa) - 1, 1 << mantissa, one - 1, one, one + 1, integers_end)
        choice = self._choice(at)
        return self._fitted(_table(known, at.device)[choice % len(known)], choice >> 30 & 1 == 1)

    def one_hot(self, at: torch.Tensor) -> torch.Tensor:
        """One element of each row is not zero, or not the value nearest to it."""
        row = at // self._row
        hot = self._choice(row) % self._row
        zero = self._values.clamped(torch.zeros_like(at))
        return torch.where(at % self._row == hot, self._spread(row, 0, 1), zero)

    def nonfinite(self, at: torch.Tensor) -> torch.Tensor:
        """Infinities and quiet NaN of any payload among plain values, in every other row."""
        largest, mantissa = self._values.largest, self._values.mantissa_bits
        choice = self._choice(at)
        quiet = 1 << mantissa - 1
        payload = self._long(at) % quiet
        has_infinity = largest + 1 & (1 << mantissa) - 1 == 0
        nan = largest + 1 + quiet + payload if has_infinity else torch.full_like(at, largest + 1)
        special = torch.where(choice >> 8 & 1 == 1, nan, largest + 1)
        special = torch.where(choice >> 9 & 1 == 1, ~special, special)
        rare = (choice % _ONE_IN == 0) & (self._words(3, at // self._row) & 1 == 1)
        return torch.where(rare, special, self._spread(at, min(2, self._top), 4))

    @property
    def _moderate_exponent(self) -> int:
        return min(_MODERATE_EXPONENT, self._top)

    def _moderate(self, at: torch.Tensor) -> torch.Tensor:
        return self._spread(at, self._moderate_exponent, _OCTAVES)

    def _spread(self, at: torch.Tensor, exponent: int, octaves: int | None) -> torch.Tensor:
        """Choose below 2**(exponent + 1), or within the bounds, over so many octaves or all."""
        top, bottom = self._highest(exponent), self._lowest(exponent, octaves)
        mantissa = self._values.mantissa_bits
        whole = top - bottom + 1 >> mantissa
        if whole:  # the octave by a word of its own: one remainder of both would favour low octaves of float64
            octave = self._choice(at) % whole
            magnitude = top - (octave << mantissa) - (self._long(at) & (1 << mantissa) - 1)
        else:
            magnitude = top - self._long(at) % (top - bottom + 1)
        return self._values.signed(magnitude, self._words(2, at) < 0)

    def _highest(self, exponent: int) -> int:
        return self._values.farthest if self._values.bounded else self._values.power(exponent + 1) - 1

    def _lowest(self, exponent: int, octaves: int | None) -> int:
        top = self._highest(exponent)
        bottom = 0 if octaves is None else top - (octaves << self._values.mantissa_bits)
        return min(max(bottom, self._values.nearest), top)

    def _fitted(self, magnitude: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        return self._values.signed(magnitude.clamp(self._values.nearest, self._values.farthest), negative)

    def _choice(self, at: torch.Tensor) -> torch.Tensor:
        """Return whole numbers of 31 bits, independent of those of `_long` and of the sign that `_spread` takes."""
        return self._words(2, at).to(torch.int64).bitwise_and_(_31_BITS)

    def _long(self, at: torch.Tensor) -> torch.Tensor:
        """Return whole numbers of 63 bits."""
        high = self._words(0, at).to(torch.int64).bitwise_left_shift_(32)
        return high.bitwise_xor_(self._words(1, at)).bitwise_and_(_63_BITS)

    def _words(self, lane: int, at: torch.Tensor) -> torch.Tensor:
        """Return the words of a lane, which nobody may change: they are kept until other places are asked for."""
        if at is not self._places:
            self._places, self._known = at, {}
        if lane not in self._known:
            self._known[lane] = streams.words_at(self._key, lane, at, size=self._size)
        return self._known[lane]

    def _folded(self, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the place in the first half of each axis that a place repeats, and whether they are odd halves apart.

        Last, whether a place is what an odd number of elements leaves over, which repeats nothing.
        """
        rest, base, step = at, torch.zeros_like(at), 1
        odd = torch.zeros_like(at, dtype=torch.bool)
        alone = odd
        for axis in reversed(self._shape):
            size = max(axis, 1)
            half, index = size // 2, rest % size
            second = (index >= half) & (index < 2 * half)
            base += torch.where(second, index - half, index) * step
            rest, step, odd = rest // size, step * size, odd ^ second
            if half:
                alone = alone | (index == 2 * half)
        return base, odd, alone


@cache
def _table(values: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return values on a device; to bring them there waits for all that is queued."""
    return torch.tensor(values, device=device)


def _signed_64(value: int) -> int:
    return value - (1 << 64) if value >> 63 > 0 else value
