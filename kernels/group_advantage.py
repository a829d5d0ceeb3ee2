"""Advantages of group-relative policy optimisation: rewards normalised within the answers to one prompt."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def _group_advantage(
    rewards_ptr, out_ptr, rewards_row_stride, out_row_stride, prompts, group, eps, BLOCK: tl.constexpr
):
    # One lane walks the group of one prompt, so no sum depends on the launch.
    prompt = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = prompt < prompts
    prompt = prompt.to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for answer in range(group):
        total += tl.load(rewards_ptr + prompt * rewards_row_stride + answer, mask=mask, other=0.0).to(tl.float32)
    mean = total / group
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for answer in range(group):
        reward = tl.load(rewards_ptr + prompt * rewards_row_stride + answer, mask=mask, other=0.0).to(tl.float32)
        squares += (reward - mean) * (reward - mean)
    deviation = tl.sqrt(squares / (group - 1))
    for answer in range(group):
        reward = tl.load(rewards_ptr + prompt * rewards_row_stride + answer, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + prompt * out_row_stride + answer, (reward - mean) / (deviation + eps), mask=mask)


def group_advantage(rewards: torch.Tensor, eps: float = 1e-4) -> torch.Tensor:
    """Return (reward - mean) / (deviation + eps) within each group, in float32.

    The deviation is the sample standard deviation (divided by group - 1).

    Args:
        rewards: Shape (prompts, group) with at least two answers a group, bfloat16, float16 or float32; groups may
            be apart.
        eps: Added to the deviation; positive.

    Returns:
        A contiguous float32 tensor of the shape of `rewards`.

    Raises:
        TypeError: Another dtype.
        ValueError: Another shape, or an eps that is not positive.
        RuntimeError: `rewards` wants a gradient; the kernel has no backward.
    """
    if rewards.dtype not in _DTYPES:
        raise TypeError(f"group_advantage takes bfloat16, float16 or float32, got {rewards.dtype}")
    if rewards.dim() != 2 or rewards.shape[1] < 2:
        raise ValueError(f"group_advantage takes shape (prompts, group of at least 2), got {tuple(rewards.shape)}")
    if not eps > 0:
        raise ValueError(f"group_advantage takes a positive eps, got {eps}: a group of equal rewards would become NaN")
    if rewards.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("group_advantage has no backward; call it under torch.no_grad()")
    out = torch.empty(rewards.shape, dtype=torch.float32, device=rewards.device)
    if out.numel() == 0:
        return out
    if rewards.stride(1) != 1:
        rewards = rewards.contiguous()
    prompts, group = rewards.shape
    _group_advantage[lambda meta: (triton.cdiv(prompts, meta["BLOCK"]),)](
        rewards, out, rewards.stride(0), group, prompts, group, eps, BLOCK=128, num_warps=4
    )
    return out
