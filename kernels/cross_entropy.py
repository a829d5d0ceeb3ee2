"""Cross-entropy of each token over a large vocabulary, with its backward."""

from typing import Any

import torch
import triton
import triton.language as tl
from fixed_order import fixed_order_sum

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

# Decides the order of additions, hence bytes: a constant, not tuned.
_BLOCK = 4096


@triton.jit
def _cross_entropy_forward(
    logits_ptr,
    targets_ptr,
    loss_ptr,
    log_sum_ptr,
    logits_row_stride,
    vocabulary,
    ignore_index,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    # Finite, so that -inf minus the maximum is never -inf minus -inf.
    highest = -3.0e38
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, vocabulary, BLOCK, num_stages=STAGES):
        col = start + tl.arange(0, BLOCK)
        logits = tl.load(logits_ptr + row * logits_row_stride + col, mask=col < vocabulary, other=-float("inf")).to(
            tl.float32
        )
        higher = tl.maximum(highest, tl.max(logits, axis=0))
        total = total * tl.exp(highest - higher) + tl.exp(logits - higher)
        highest = higher
    log_sum = highest + tl.log(fixed_order_sum(total, BLOCK))
    tl.store(log_sum_ptr + row, log_sum)
    target = tl.load(targets_ptr + row).to(tl.int64)
    # A target outside the vocabulary must not read foreign memory, nor pass in silence.
    known = (target >= 0) & (target < vocabulary)
    logit = tl.load(logits_ptr + row * logits_row_stride + target, mask=known, other=float("nan")).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(target == ignore_index, 0.0, log_sum - logit))


@triton.jit
def _cross_entropy_backward(
    dloss_ptr,
    logits_ptr,
    targets_ptr,
    log_sum_ptr,
    dlogits_ptr,
    logits_row_stride,
    dlogits_row_stride,
    vocabulary,
    ignore_index,
    BLOCK: tl.constexpr,
):
    blocks = tl.cdiv(vocabulary, BLOCK)
    program = tl.program_id(0)
    row = (program // blocks).to(tl.int64)
    col = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    mask = col < vocabulary
    target = tl.load(targets_ptr + row).to(tl.int64)
    dloss = tl.load(dloss_ptr + row).to(tl.float32)
    log_sum = tl.load(log_sum_ptr + row)
    logits = tl.load(logits_ptr + row * logits_row_stride + col, mask=mask).to(tl.float32)
    probability = tl.exp(logits - log_sum)
    dlogits = dloss * tl.where(col == target, probability - 1.0, probability)
    dlogits = tl.where((target >= 0) & (target < vocabulary), dlogits, float("nan"))
    # An ignored row has no gradient even where its logits are not finite.
    dlogits = tl.where(target == ignore_index, 0.0, dlogits)
    tl.store(dlogits_ptr + row * dlogits_row_stride + col, dlogits.to(dlogits_ptr.dtype.element_ty), mask=mask)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor, ignore_index: int) -> torch.Tensor:
        targets = targets.contiguous()
        loss = torch.empty(targets.shape, dtype=torch.float32, device=logits.device)
        log_sum = torch.empty(targets.shape, dtype=torch.float32, device=logits.device)
        ctx.save_for_backward(logits, targets, log_sum)
        ctx.ignore_index = ignore_index
        if loss.numel() == 0:
            return loss
        rows = _rows(logits)
        _cross_entropy_forward[(rows.shape[0],)](
            rows,
            targets,
            loss,
            log_sum,
            rows.stride(0),
            rows.shape[1],
            ignore_index,
            BLOCK=_BLOCK,
            STAGES=3,
            num_warps=8,
        )
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logits, targets, log_sum = ctx.saved_tensors
        return cross_entropy_backward(dloss, logits, targets, log_sum, ctx.ignore_index), None, None


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, ignore_index: int = -100) -> torch.Tensor:
    """Return log(sum(exp(logits))) - logits[target] of each row, in float32; differentiable in `logits`.

    A target outside the vocabulary gives NaN, in the loss and in the gradient.

    Args:
        logits: Shape (..., vocabulary), bfloat16, float16 or float32; rows may be apart.
        targets: Shape of `logits` without its last axis, int32 or int64.
        ignore_index: Target of rows whose loss and gradient are zero.

    Returns:
        A float32 tensor of the shape of `targets`, not reduced.

    Raises:
        TypeError: Another dtype.
        ValueError: Shapes or devices that do not fit together, or an empty vocabulary.
    """
    if logits.dtype not in _DTYPES or targets.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            f"cross_entropy takes logits of bfloat16, float16 or float32 and targets of int32 or int64, "
            f"got {logits.dtype} and {targets.dtype}"
        )
    if (
        logits.dim() == 0
        or targets.shape != logits.shape[:-1]
        or logits.shape[-1] == 0
        or targets.device != logits.device
    ):
        raise ValueError(
            f"cross_entropy takes logits of shape (..., vocabulary) and one target a row on one device, "
            f"got {tuple(logits.shape)} on {logits.device} and {tuple(targets.shape)} on {targets.device}"
        )
    loss: torch.Tensor = _CrossEntropy.apply(logits, targets, ignore_index)
    return loss


def cross_entropy_backward(
    dloss: torch.Tensor, logits: torch.Tensor, targets: torch.Tensor, log_sum: torch.Tensor, ignore_index: int = -100
) -> torch.Tensor:
    """Return the gradient of `logits`, (softmax(logits) - one_hot(target)) * dloss.

    Args:
        dloss: Gradient of each row's loss, shape of `targets`.
        logits: As `cross_entropy` takes them.
        targets: As `cross_entropy` takes them, contiguous.
        log_sum: log(sum(exp(logits))) of each row, float32, contiguous, shape of `targets`.
        ignore_index: As `cross_entropy` takes it.

    Returns:
        A contiguous tensor of the shape and dtype of `logits`.

    Raises:
        ValueError: Shapes that do not fit together.
    """
    if not dloss.shape == targets.shape == log_sum.shape == logits.shape[:-1]:
        raise ValueError(
            f"cross_entropy_backward takes dloss, targets and log_sum of shape {tuple(logits.shape[:-1])}, "
            f"got {tuple(dloss.shape)}, {tuple(targets.shape)} and {tuple(log_sum.shape)}"
        )
    dlogits = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    if dlogits.numel() == 0:
        return dlogits
    rows = _rows(logits)
    vocabulary = rows.shape[1]
    _cross_entropy_backward[lambda meta: (rows.shape[0] * triton.cdiv(vocabulary, meta["BLOCK"]),)](
        dloss.contiguous(),
        rows,
        targets,
        log_sum,
        dlogits,
        rows.stride(0),
        vocabulary,
        vocabulary,
        ignore_index,
        BLOCK=2048,
        num_warps=4,
    )
    return dlogits


def _rows(x: torch.Tensor) -> torch.Tensor:
    """View `x` as (rows, cols) with adjacent columns; copy only where no such view exists."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()
