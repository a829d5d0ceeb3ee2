"""Sums whose order of additions is part of the kernel and not of the launch."""

import triton
import triton.language as tl


@triton.constexpr_function
def _halvings(length):
    return length.bit_length() - 2


@triton.jit
def fixed_order_sum(values, LENGTH: tl.constexpr) -> tl.tensor:
    """Sum a block of LENGTH values, a power of two of at least 2, as a tree over neighbours.

    A plain `tl.sum` first adds what one thread holds, so `num_warps` decides the order.
    Here every addition joins two neighbours, in every layout.
    The values must not be products: where neighbours share a thread the compiler would fuse one into the addition.
    """
    for step in tl.static_range(_halvings(LENGTH)):
        values = tl.sum(tl.reshape(values, (LENGTH >> (step + 1), 2)), axis=1)
    return tl.sum(values, axis=0)
