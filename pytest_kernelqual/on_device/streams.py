"""Random values that are the same bytes on every device: a value is a function of a key and an element index alone.

Every step is an integer operation, an exact conversion, or one correctly rounded float operation; nothing calls a
mathematical library, and no multiplication can be fused with an addition, since each is a call of its own.
"""

import hashlib
import struct
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import torch

# Multipliers of the mixing rounds: odd, with about half of their bits set, found by search for low bias.
_MULTIPLIER_1 = 0x7FEB352D
_MULTIPLIER_2 = 0x846CA68B
_GOLDEN = 0x9E3779B9

_SPAN_OF_ONE_WORD = 1 << 20
_LEAST_TOO_LARGE = 1 << 31  # for int32
_SPAN_OF_63_BITS = 1 << 63
_SPAN_OF_64_BITS = 1 << 64

# The normal quantile is linear within cells whose relative width is 2**-7; nodes lie on a grid of 2**-20, which no
# error of a mathematical library (about 2**-50) can move them off, and which keeps slopes and offsets exact.
_CELL_BITS = 7
_NODE_GRID = 1 << 20
_LEAST_EXPONENT, _MOST_EXPONENT = -33, 31
_SINGLE_MANTISSA_BITS = 23
_SINGLE_BIAS = 127
_TABLE_ROWS = 1 << (1 + 8 + _CELL_BITS)

LARGEST_NORMAL = 9.25
"""No value of `normal` is further from 0."""


class Key:
    """Hold the words of 32 bits that make one tensor's values its own."""

    __slots__ = ("words",)

    def __init__(self, stream: str, ordinal: int) -> None:
        """Derive the key of the tensor number `ordinal` of `stream`."""
        digest = hashlib.sha256(f"{stream}\0{ordinal}".encode()).digest()
        self.words: tuple[int, ...] = struct.unpack("<8I", digest)


def words(key: Key, lane: int, start: int, count: int, device: torch.device) -> torch.Tensor:
    """Return `count` words (int32) for the elements from `start` on; lanes 0 to 3 are independent."""
    boundary = (start | 0xFFFFFFFF) + 1
    if start + count > boundary:
        parts = (
            words(key, lane, start, boundary - start, device),
            words(key, lane, boundary, start + count - boundary, device),
        )
        return torch.cat(parts)
    x = torch.arange(count, dtype=torch.int32, device=device).add_(_signed(start + key.words[2 * lane]))
    return _mixed(x, _signed(key.words[2 * lane + 1] + (start >> 32) * _GOLDEN))


def words_at(key: Key, lane: int, index: torch.Tensor, *, size: int) -> torch.Tensor:
    """Return the words (int32) of the elements at any places (int64) below `size`: what `words` returns for them."""
    if size <= _LEAST_TOO_LARGE:  # half as many operations, each of which is a launch on a device
        return _mixed(index.to(torch.int32).add_(_signed(key.words[2 * lane])), _signed(key.words[2 * lane + 1]))
    low = index.add(key.words[2 * lane]).bitwise_and_(0xFFFFFFFF)
    second = index.bitwise_right_shift(32).mul_(_GOLDEN).add_(key.words[2 * lane + 1]).bitwise_and_(0xFFFFFFFF)
    return _mixed(_wrapped(low), _wrapped(second))


def long_words(key: Key, start: int, count: int, device: torch.device) -> torch.Tensor:
    """Return `count` words of 64 bits (int64) for the elements from `start` on."""
    high = words(key, 0, start, count, device).to(torch.int64).bitwise_left_shift_(32)
    return high.bitwise_xor_(words(key, 1, start, count, device))


def normal(key: Key, start: int, count: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return normally distributed values of mean 0 and deviation 1 as float32 or float64."""
    # A signed word as a float: sign and distance from 0 choose the tail probability |u| / 2**32, and the leading
    # bits of the float itself choose the cell, so that cells are finest where the tail is longest.
    if dtype == torch.float64:
        u = long_words(key, start, count, device).to(dtype).mul_(2.0**-32)
        single = u.to(torch.float32)
    else:
        u = single = words(key, 0, start, count, device).to(dtype)
    cell = single.view(torch.int32).bitwise_right_shift(_SINGLE_MANTISSA_BITS - _CELL_BITS)
    cell.bitwise_and_(_TABLE_ROWS - 1)
    slope, offset = _quantiles(dtype, device)
    return slope.index_select(0, cell).mul_(u).add_(offset.index_select(0, cell))


def symmetric(key: Key, start: int, count: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return uniform values of [-0.5, 0.5) on the grid of 2**-24 (float32) or 2**-53 (float64)."""
    if dtype == torch.float64:
        return long_words(key, start, count, device).bitwise_right_shift_(11).to(dtype).mul_(2.0**-53)
    return words(key, 0, start, count, device).bitwise_right_shift_(8).to(dtype).mul_(2.0**-24)


def integers(key: Key, start: int, count: int, device: torch.device, span: int) -> torch.Tensor:
    """Return integers of [0, span) as int64; a span of 2**64 gives every int64."""
    if span <= _SPAN_OF_ONE_WORD:
        low = words(key, 0, start, count, device).to(torch.int64).bitwise_and_(0xFFFFFFFF)
        return low.mul_(span).bitwise_right_shift_(32)
    value = long_words(key, start, count, device)
    if span == _SPAN_OF_64_BITS:
        return value
    value.bitwise_and_(_SPAN_OF_63_BITS - 1)
    return value if span == _SPAN_OF_63_BITS else value.remainder_(span)


def below(key: Key, start: int, count: int, device: torch.device, p: float) -> torch.Tensor:
    """Return true with probability `p`, to 2**-32."""
    threshold = round(p * 2**32)
    if threshold == 1 << 32:
        return torch.ones(count, dtype=torch.bool, device=device)
    return words(key, 0, start, count, device).lt(threshold - (1 << 31))


def permutation(key: Key, n: int, device: torch.device) -> torch.Tensor:
    """Return a permutation of 0 .. n-1 as int64, n at most 2**32."""
    # The index in the low half makes every sort key another one: no sort has a choice.
    index = torch.arange(n, dtype=torch.int64, device=device)
    keys = words(key, 0, 0, n, device).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(index)
    return keys.sort().values.bitwise_and_(0xFFFFFFFF)


def _mixed(x: torch.Tensor, second: torch.Tensor | int) -> torch.Tensor:
    """Mix words in place."""
    shifted = torch.empty_like(x)
    _fold(x, 16, shifted).mul_(_signed(_MULTIPLIER_1)).add_(second)
    _fold(x, 15, shifted).mul_(_signed(_MULTIPLIER_2))
    return _fold(x, 16, shifted)


def _wrapped(low: torch.Tensor) -> torch.Tensor:
    """Return the low 32 bits of int64 as int32."""
    return low.sub_(low.bitwise_right_shift(31).bitwise_left_shift_(32)).to(torch.int32)


def _fold(x: torch.Tensor, distance: int, shifted: torch.Tensor) -> torch.Tensor:
    """Combine `x` in place with itself shifted right; int32 shifts copy the sign, so the mask makes them logical."""
    torch.bitwise_right_shift(x, distance, out=shifted)
    return x.bitwise_xor_(shifted.bitwise_and_((1 << (32 - distance)) - 1))


def _signed(word: int) -> int:
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >> 31 else word


@lru_cache(maxsize=16)
def _quantiles(dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return slope and offset of every cell, indexed by the sign, exponent and leading mantissa bits of a float32."""
    slope, offset = [0.0] * _TABLE_ROWS, [0.0] * _TABLE_ROWS
    nodes = quantile_nodes()
    mirror = _TABLE_ROWS // 2
    for cell, ((left, z), (right, z_right)) in enumerate(pairwise(nodes)):
        row = ((_LEAST_EXPONENT + _SINGLE_BIAS) << _CELL_BITS) + cell
        slope[row] = slope[row + mirror] = (z_right - z) / (right - left)
        offset[row] = z - slope[row] * left
        offset[row + mirror] = -offset[row]
    # u = 0 has no leading bit: it takes the value next to the longest tail; |u| = 2**31 is the median.
    offset[0] = nodes[0][1]
    return torch.tensor(slope, dtype=dtype, device=device), torch.tensor(offset, dtype=dtype, device=device)


@lru_cache(maxsize=1)
def quantile_nodes() -> list[tuple[float, float]]:
    """Return (u, z) at every cell edge: a normal value is beyond z with probability u / 2**32."""
    inverse = NormalDist().inv_cdf
    edges = [
        2.0**exponent * (1 + step / (1 << _CELL_BITS))
        for exponent in range(_LEAST_EXPONENT, _MOST_EXPONENT)
        for step in range(1 << _CELL_BITS)
    ]
    return [(u, round(-inverse(u * 2.0**-32) * _NODE_GRID) / _NODE_GRID) for u in [*edges, 2.0**_MOST_EXPONENT]]
