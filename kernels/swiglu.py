"""SwiGLU gate of a feed-forward block, silu(gate) * up, with its backward."""

from typing import Any

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def _fitting(configs, named_args, **_: Any):
    """Drop blocks of which more than half would lie outside the row; keep the smallest at least."""
    limit = max(2 * named_args["cols"], min(config.kwargs["BLOCK"] for config in configs))
    return [config for config in configs if config.kwargs["BLOCK"] <= limit]


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 256}, num_warps=2),
        triton.Config({"BLOCK": 512}, num_warps=4),
        triton.Config({"BLOCK": 1024}, num_warps=8),
        triton.Config({"BLOCK": 2048}, num_warps=8),
        triton.Config({"BLOCK": 4096}, num_warps=8),
    ],
    key=["cols"],
    prune_configs_by={"early_config_prune": _fitting},
)
@triton.jit
def _swiglu_forward(
    gate_ptr, up_ptr, out_ptr, gate_row_stride, up_row_stride, out_row_stride, cols, BLOCK: tl.constexpr
):
    blocks = tl.cdiv(cols, BLOCK)
    program = tl.program_id(0)
    row = (program // blocks).to(tl.int64)
    col = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    mask = col < cols
    gate = tl.load(gate_ptr + row * gate_row_stride + col, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + row * up_row_stride + col, mask=mask).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + row * out_row_stride + col, out.to(out_ptr.dtype.element_ty), mask=mask)


# Eight elements a thread keep the loads wide and the three inputs in registers.
@triton.heuristics({"num_warps": lambda args: min(max(args["BLOCK"] // 256, 1), 16)})
@triton.jit
def _swiglu_backward(
    dout_ptr,
    gate_ptr,
    up_ptr,
    dgate_ptr,
    dup_ptr,
    dout_row_stride,
    gate_row_stride,
    up_row_stride,
    dx_row_stride,
    cols,
    BLOCK: tl.constexpr,
):
    blocks = tl.cdiv(cols, BLOCK)
    program = tl.program_id(0)
    row = (program // blocks).to(tl.int64)
    col = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    mask = col < cols
    dout = tl.load(dout_ptr + row * dout_row_stride + col, mask=mask).to(tl.float32)
    gate = tl.load(gate_ptr + row * gate_row_stride + col, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + row * up_row_stride + col, mask=mask).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    dup = dout * (gate * sigmoid)
    dgate = dout * up * (sigmoid * (1 + gate * (1 - sigmoid)))
    tl.store(dgate_ptr + row * dx_row_stride + col, dgate.to(dgate_ptr.dtype.element_ty), mask=mask)
    tl.store(dup_ptr + row * dx_row_stride + col, dup.to(dup_ptr.dtype.element_ty), mask=mask)


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
        if out.numel() == 0:
            return out
        gate_rows, up_rows = _rows(gate), _rows(up)
        rows, cols = gate_rows.shape
        _swiglu_forward[lambda meta: (rows * triton.cdiv(cols, meta["BLOCK"]),)](
            gate_rows, up_rows, out, gate_rows.stride(0), up_rows.stride(0), cols, cols
        )
        return out

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate, up = ctx.saved_tensors
        dgate = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
        dup = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
        if dgate.numel() == 0:
            return dgate, dup
        dout_rows, gate_rows, up_rows = _rows(dout), _rows(gate), _rows(up)
        rows, cols = gate_rows.shape
        _swiglu_backward[lambda meta: (rows * triton.cdiv(cols, meta["BLOCK"]),)](
            dout_rows,
            gate_rows,
            up_rows,
            dgate,
            dup,
            dout_rows.stride(0),
            gate_rows.stride(0),
            up_rows.stride(0),
            cols,
            cols,
            BLOCK=1024,
        )
        return dgate, dup


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up, computed in float32 and rounded once; differentiable in both.

    Args:
        gate: Shape (..., cols), bfloat16, float16 or float32; rows may be apart, so the two halves of one fused
            projection are taken without a copy.
        up: Shape, dtype and device of `gate`.

    Returns:
        A contiguous tensor of the shape and dtype of `gate`.

    Raises:
        TypeError: Another dtype, or two different ones.
        ValueError: Shapes or devices that differ, or a scalar.
    """
    if gate.dtype not in _DTYPES or up.dtype != gate.dtype:
        raise TypeError(f"swiglu takes one dtype of bfloat16, float16 or float32, got {gate.dtype} and {up.dtype}")
    if gate.dim() == 0 or gate.shape != up.shape or gate.device != up.device:
        raise ValueError(
            f"swiglu takes gate and up of one shape (..., cols) on one device, "
            f"got {tuple(gate.shape)} on {gate.device} and {tuple(up.shape)} on {up.device}"
        )
    out: torch.Tensor = _SwiGLU.apply(gate, up)
    return out


def _rows(x: torch.Tensor) -> torch.Tensor:
    """View `x` as (rows, cols) with adjacent columns; copy only where no such view exists."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()
