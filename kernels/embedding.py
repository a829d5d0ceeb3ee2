"""Embedding look-up with a deterministic backward: no atomics, each row summed in token order."""

from typing import Any

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def _embedding_forward(
    ids_ptr, weight_ptr, out_ptr, weight_row_stride, out_row_stride, vocabulary, dim, BLOCK: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)
    row = tl.load(ids_ptr + token).to(tl.int64)
    # An id outside the table must not read foreign memory, nor pass in silence.
    readable = tl.where((row >= 0) & (row < vocabulary), dim, 0)
    for start in range(0, dim, BLOCK):
        col = start + tl.arange(0, BLOCK)
        mask = col < dim
        values = tl.load(weight_ptr + row * weight_row_stride + col, mask=col < readable, other=float("nan"))
        tl.store(out_ptr + token * out_row_stride + col, values, mask=mask)


@triton.jit
def _embedding_backward(
    dout_ptr,
    sorted_ids_ptr,
    order_ptr,
    run_ends_ptr,
    dweight_ptr,
    dout_row_stride,
    dweight_row_stride,
    vocabulary,
    dim,
    BLOCK: tl.constexpr,
):
    # Equal ids lie side by side, in token order; the first of each run sums the run.
    first = tl.program_id(0)
    row = tl.load(sorted_ids_ptr + first).to(tl.int64)
    previous = tl.load(sorted_ids_ptr + first - 1, mask=first > 0, other=-1).to(tl.int64)
    if (row != previous) & (row >= 0) & (row < vocabulary):
        end = tl.load(run_ends_ptr + first).to(tl.int32)
        col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        mask = col < dim
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for index in range(first, end):
            token = tl.load(order_ptr + index)
            total += tl.load(dout_ptr + token * dout_row_stride + col, mask=mask, other=0.0).to(tl.float32)
        tl.store(dweight_ptr + row * dweight_row_stride + col, total.to(dweight_ptr.dtype.element_ty), mask=mask)


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(ids)
        ctx.vocabulary = weight.shape[0]
        out = torch.empty((*ids.shape, weight.shape[1]), dtype=weight.dtype, device=weight.device)
        if out.numel() == 0:
            return out
        if weight.stride(1) != 1:
            weight = weight.contiguous()
        dim = weight.shape[1]
        _embedding_forward[(ids.numel(),)](
            ids.contiguous(),
            weight,
            out,
            weight.stride(0),
            dim,
            weight.shape[0],
            dim,
            BLOCK=min(triton.next_power_of_2(dim), 2048),
            num_warps=4,
        )
        return out

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> tuple[None, torch.Tensor]:
        (ids,) = ctx.saved_tensors
        return None, embedding_backward(dout, ids, ctx.vocabulary)


def embedding(ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the rows of `weight` that `ids` name; differentiable in `weight`.

    An id outside the table gives a row of NaN, and no gradient.

    Args:
        ids: Any shape, int32 or int64, fewer than 2^31 elements.
        weight: Shape (vocabulary, dim), bfloat16, float16 or float32; rows may be apart.

    Returns:
        A contiguous tensor of shape (*ids.shape, dim) and the dtype of `weight`.

    Raises:
        TypeError: Another dtype.
        ValueError: A weight that is not two-dimensional, or two devices.
    """
    if ids.dtype not in (torch.int32, torch.int64) or weight.dtype not in _DTYPES:
        raise TypeError(
            f"embedding takes ids of int32 or int64 and weight of bfloat16, float16 or float32, "
            f"got {ids.dtype} and {weight.dtype}"
        )
    if weight.dim() != 2 or ids.device != weight.device:
        raise ValueError(
            f"embedding takes weight of shape (vocabulary, dim) on the device of ids, {ids.device}, "
            f"got {tuple(weight.shape)} on {weight.device}"
        )
    out: torch.Tensor = _Embedding.apply(ids, weight)
    return out


def embedding_backward(dout: torch.Tensor, ids: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Sum gradient rows by id: float32 sums in token order, rounded once.

    One program walks all tokens of an id, so an id that fills the batch is slow.

    Args:
        dout: Shape (*ids.shape, dim), bfloat16, float16 or float32.
        ids: int32 or int64; those outside 0 .. vocabulary-1 add to nothing.
        vocabulary: Rows of the table.

    Returns:
        A contiguous tensor of shape (vocabulary, dim) and the dtype of `dout`; zero where no token has the id.

    Raises:
        ValueError: Shapes that do not fit together.
    """
    if dout.shape[:-1] != ids.shape:
        raise ValueError(f"embedding_backward takes dout of shape {(*ids.shape, 'dim')}, got {tuple(dout.shape)}")
    dim = dout.shape[-1]
    dweight = torch.zeros((vocabulary, dim), dtype=dout.dtype, device=dout.device)
    if dout.numel() == 0:
        return dweight
    rows = dout.reshape(-1, dim)
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    sorted_ids, order = torch.sort(ids.reshape(-1), stable=True)
    run_ends = torch.searchsorted(sorted_ids, sorted_ids, right=True)
    _embedding_backward[lambda meta: (rows.shape[0], triton.cdiv(dim, meta["BLOCK"]))](
        rows,
        sorted_ids,
        order,
        run_ends,
        dweight,
        rows.stride(0),
        dim,
        vocabulary,
        dim,
        BLOCK=min(triton.next_power_of_2(dim), 512),
        num_warps=2,
    )
    return dweight
