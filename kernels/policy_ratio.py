"""Probability ratio and KL estimate of policy-gradient training, token by token."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.heuristics(
    {
        "HAS_REFERENCE": lambda args: args["reference_ptr"] is not None,
        "HAS_MASK": lambda args: args["mask_ptr"] is not None,
    }
)
@triton.jit
def _policy_ratio(
    current_ptr,
    old_ptr,
    reference_ptr,
    mask_ptr,
    ratio_ptr,
    kl_ptr,
    current_row_stride,
    old_row_stride,
    reference_row_stride,
    mask_row_stride,
    out_row_stride,
    tokens,
    HAS_REFERENCE: tl.constexpr,
    HAS_MASK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    blocks = tl.cdiv(tokens, BLOCK)
    program = tl.program_id(0)
    row = (program // blocks).to(tl.int64)
    col = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = col < tokens
    current = tl.load(current_ptr + row * current_row_stride + col, mask=inside).to(tl.float32)
    old = tl.load(old_ptr + row * old_row_stride + col, mask=inside).to(tl.float32)
    ratio = tl.exp(current - old)
    if HAS_MASK:
        kept = tl.load(mask_ptr + row * mask_row_stride + col, mask=inside, other=0) != 0
        ratio = tl.where(kept, ratio, 1.0)
    tl.store(ratio_ptr + row * out_row_stride + col, ratio, mask=inside)
    if HAS_REFERENCE:
        reference = tl.load(reference_ptr + row * reference_row_stride + col, mask=inside).to(tl.float32)
        # Never negative and without bias: E[exp(d) - 1 - d] is the KL divergence for d = log(reference / current).
        difference = reference - current
        kl = tl.exp(difference) - 1.0 - difference
        if HAS_MASK:
            kl = tl.where(kept, kl, 0.0)
        tl.store(kl_ptr + row * out_row_stride + col, kl, mask=inside)


def policy_ratio(
    current: torch.Tensor,
    old: torch.Tensor,
    reference: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return exp(current - old) and the KL estimate exp(d) - 1 - d with d = reference - current.

    Where the mask is false the ratio is one and the KL estimate zero, whatever the log-probabilities hold.

    Args:
        current: Log-probabilities of the sampled tokens, shape (..., tokens), bfloat16, float16 or float32;
            rows may be apart.
        old: The same under the policy that sampled them.
        reference: The same under the reference policy; None where no KL is wanted.
        mask: Bool, the same shape; None keeps every token.

    Returns:
        Two contiguous float32 tensors of the shape of `current`; the second is None without `reference`.

    Raises:
        TypeError: Another dtype.
        ValueError: Shapes or devices that differ, or a scalar.
        RuntimeError: An input wants a gradient; the kernel has no backward.
    """
    log_probs = [tensor for tensor in (current, old, reference) if tensor is not None]
    given = log_probs if mask is None else [*log_probs, mask]
    if any(tensor.dtype not in _DTYPES for tensor in log_probs) or (mask is not None and mask.dtype != torch.bool):
        raise TypeError(
            f"policy_ratio takes log-probabilities of bfloat16, float16 or float32 and a bool mask, "
            f"got {', '.join(str(tensor.dtype) for tensor in given)}"
        )
    if current.dim() == 0 or any(t.shape != current.shape or t.device != current.device for t in given):
        raise ValueError(
            f"policy_ratio takes tensors of one shape (..., tokens) on one device, "
            f"got {', '.join(f'{tuple(tensor.shape)} on {tensor.device}' for tensor in given)}"
        )
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
        raise RuntimeError("policy_ratio has no backward; call it under torch.no_grad()")
    ratio = torch.empty(current.shape, dtype=torch.float32, device=current.device)
    kl = None if reference is None else torch.empty(current.shape, dtype=torch.float32, device=current.device)
    if ratio.numel() == 0:
        return ratio, kl
    current_rows, old_rows = _rows(current), _rows(old)
    reference_rows = None if reference is None else _rows(reference)
    mask_rows = None if mask is None else _rows(mask)
    rows, tokens = current_rows.shape
    _policy_ratio[lambda meta: (rows * triton.cdiv(tokens, meta["BLOCK"]),)](
        current_rows,
        old_rows,
        reference_rows,
        mask_rows,
        ratio,
        kl,
        current_rows.stride(0),
        old_rows.stride(0),
        0 if reference_rows is None else reference_rows.stride(0),
        0 if mask_rows is None else mask_rows.stride(0),
        tokens,
        tokens,
        BLOCK=512,
        num_warps=4,
    )
    return ratio, kl


def _rows(x: torch.Tensor) -> torch.Tensor:
    """View `x` as (rows, cols) with adjacent columns; copy only where no such view exists."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()
