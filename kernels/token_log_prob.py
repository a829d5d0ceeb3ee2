"""Log-probability of selected tokens over a large vocabulary; a token's bytes do not depend on its batch."""

import torch
import triton
import triton.language as tl
from fixed_order import fixed_order_sum

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

# Decides the order of additions, hence bytes: a constant, not tuned.
_BLOCK = 2048


@triton.jit
def _token_log_prob(
    logits_ptr, ids_ptr, out_ptr, logits_row_stride, vocabulary, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    # Finite, so that -inf minus the maximum is never -inf minus -inf.
    highest = tl.full((BLOCK,), -3.0e38, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, vocabulary, BLOCK, num_stages=STAGES):
        col = start + tl.arange(0, BLOCK)
        logits = tl.load(logits_ptr + row * logits_row_stride + col, mask=col < vocabulary, other=-float("inf")).to(
            tl.float32
        )
        higher = tl.maximum(highest, logits)
        total = total * tl.exp(highest - higher) + tl.exp(logits - higher)
        highest = higher
    row_highest = tl.max(highest, axis=0)
    # The explicit fma ends in an addition: a bare product could be fused into the sum by some layouts only.
    total = tl.fma(total, tl.exp(highest - row_highest), 0.0)
    log_sum = row_highest + tl.log(fixed_order_sum(total, BLOCK))
    token = tl.load(ids_ptr + row).to(tl.int64)
    # An id outside the vocabulary must not read foreign memory, nor pass in silence.
    known = (token >= 0) & (token < vocabulary)
    logit = tl.load(logits_ptr + row * logits_row_stride + token, mask=known, other=float("nan")).to(tl.float32)
    tl.store(out_ptr + row, logit - log_sum)


def token_log_prob(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return log(softmax(logits))[id] for one id a row, in float32.

    The same row gives the same bytes alone and in any batch, as rollout and training must agree.
    An id outside the vocabulary gives NaN.

    Args:
        logits: Shape (..., vocabulary), bfloat16, float16 or float32; rows may be apart.
        ids: Shape of `logits` without its last axis, int32 or int64.

    Returns:
        A contiguous float32 tensor of the shape of `ids`.

    Raises:
        TypeError: Another dtype.
        ValueError: Shapes or devices that do not fit together, or an empty vocabulary.
        RuntimeError: `logits` wants a gradient; the kernel has no backward.
    """
    if logits.dtype not in _DTYPES or ids.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            f"token_log_prob takes logits of bfloat16, float16 or float32 and ids of int32 or int64, "
            f"got {logits.dtype} and {ids.dtype}"
        )
    if logits.dim() == 0 or ids.shape != logits.shape[:-1] or logits.shape[-1] == 0 or ids.device != logits.device:
        raise ValueError(
            f"token_log_prob takes logits of shape (..., vocabulary) and one id a row on one device, "
            f"got {tuple(logits.shape)} on {logits.device} and {tuple(ids.shape)} on {ids.device}"
        )
    if logits.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("token_log_prob has no backward; call it under torch.no_grad() or use cross_entropy")
    out = torch.empty(ids.shape, dtype=torch.float32, device=logits.device)
    if out.numel() == 0:
        return out
    rows = logits.reshape(-1, logits.shape[-1])
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    _token_log_prob[(rows.shape[0],)](
        rows, ids.contiguous(), out, rows.stride(0), rows.shape[1], BLOCK=_BLOCK, STAGES=3, num_warps=8
    )
    return out
