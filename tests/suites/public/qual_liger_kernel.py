"""Specs of kernels that liger-kernel ships, launched through its autograd functions."""

from liger_kernel.ops import (
    LigerCrossEntropyFunction,
    LigerDyTFunction,
    LigerFusedMoEFunction,
    LigerGELUMulFunction,
    LigerKLDivLossFunction,
    LigerLayerNormFunction,
    LigerRMSNormFunction,
    LigerRopeFunction,
    LigerSiLUMulFunction,
    LigerSparsemaxFunction,
)
from liger_kernel.ops.cross_entropy import liger_cross_entropy_kernel
from liger_kernel.ops.dyt import _dyt_fwd_kernel
from liger_kernel.ops.fused_moe_kernels import _fused_up_proj_swiglu_kernel
from liger_kernel.ops.geglu import _geglu_tanh_backward_kernel, _geglu_tanh_forward_kernel
from liger_kernel.ops.kl_div import _kldiv_kernel_backward
from liger_kernel.ops.layer_norm import _layer_norm_backward_kernel, _layer_norm_forward_kernel
from liger_kernel.ops.rms_norm import _rms_norm_backward_kernel, _rms_norm_forward_kernel
from liger_kernel.ops.rope import _triton_rope
from liger_kernel.ops.sparsemax import _sparsemax_forward_kernel
from liger_kernel.ops.swiglu import _swiglu_backward_kernel, _swiglu_forward_kernel

from pytest_kernelqual import Case, grid, kernel_spec

WARPS = grid(num_warps=[2, 4, 8, 16, 32])
REDUCES = "the number of warps changes the order of a sum"
ROWS = [
    Case(rows=4096, cols=2048, dtype="bfloat16", interpreter={"rows": 5, "cols": 200}),
    Case(rows=515, cols=1000, dtype="float16", interpreter={"rows": 3}),
]


def rows_of(case, seeded, name, **given):
    return seeded.normal((case.rows, case.cols), dtype=case.dtype, name=name, **given)


@kernel_spec(kernel=_rms_norm_forward_kernel, candidates=WARPS, cases=ROWS, screen=REDUCES)
def liger_rms_norm_forward(case, seeded):
    x = rows_of(case, seeded, "x")
    weight = seeded.normal((case.cols,), dtype=case.dtype, name="weight")
    return lambda: LigerRMSNormFunction.apply(x, weight, 1e-6)


@kernel_spec(kernel=_rms_norm_backward_kernel, candidates=WARPS, cases=ROWS, screen=REDUCES)
def liger_rms_norm_backward(case, seeded):
    x = rows_of(case, seeded, "x", requires_grad=True)
    weight = seeded.normal((case.cols,), dtype=case.dtype, name="weight", requires_grad=True)
    upstream = rows_of(case, seeded, "upstream")
    # in_place=False: the default writes the gradient over `upstream`.
    return lambda: LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, "llama", False).backward(upstream)


@kernel_spec(kernel=_layer_norm_forward_kernel, candidates=WARPS, cases=ROWS, screen=REDUCES)
def liger_layer_norm_forward(case, seeded):
    x = rows_of(case, seeded, "x")
    weight, bias = (seeded.normal((case.cols,), dtype=case.dtype, name=name) for name in ("weight", "bias"))
    return lambda: LigerLayerNormFunction.apply(x, weight, bias, 1e-6)


@kernel_spec(kernel=_layer_norm_backward_kernel, candidates=WARPS, cases=ROWS, screen=REDUCES)
def liger_layer_norm_backward(case, seeded):
    x = rows_of(case, seeded, "x", requires_grad=True)
    weight, bias = (
        seeded.normal((case.cols,), dtype=case.dtype, name=name, requires_grad=True) for name in ("weight", "bias")
    )
    upstream = rows_of(case, seeded, "upstream")
    return lambda: LigerLayerNormFunction.apply(x, weight, bias, 1e-6).backward(upstream)


@kernel_spec(kernel=_swiglu_forward_kernel, candidates=WARPS, cases=ROWS)
def liger_swiglu_forward(case, seeded):
    gate, up = rows_of(case, seeded, "gate"), rows_of(case, seeded, "up")
    return lambda: LigerSiLUMulFunction.apply(gate, up)


@kernel_spec(kernel=_swiglu_backward_kernel, candidates=WARPS, cases=ROWS)
def liger_swiglu_backward(case, seeded):
    gate, up = (rows_of(case, seeded, name, requires_grad=True) for name in ("gate", "up"))
    upstream = rows_of(case, seeded, "upstream")
    # The kernel writes gradients over what the forward pass saved, so each launch has its own copies.
    return lambda: LigerSiLUMulFunction.apply(gate.clone(), up.clone()).backward(upstream)


@kernel_spec(kernel=_geglu_tanh_forward_kernel, candidates=WARPS, cases=ROWS)
def liger_geglu_forward(case, seeded):
    gate, up = rows_of(case, seeded, "gate"), rows_of(case, seeded, "up")
    return lambda: LigerGELUMulFunction.apply(gate, up)


@kernel_spec(kernel=_geglu_tanh_backward_kernel, candidates=WARPS, cases=ROWS)
def liger_geglu_backward(case, seeded):
    gate, up = (rows_of(case, seeded, name, requires_grad=True) for name in ("gate", "up"))
    upstream = rows_of(case, seeded, "upstream")
    return lambda: LigerGELUMulFunction.apply(gate.clone(), up.clone()).backward(upstream)


@kernel_spec(
    kernel=liger_cross_entropy_kernel,
    candidates=grid(num_warps=[4, 8, 16, 32]),
    cases=[Case(rows=512, cols=32000, dtype="bfloat16", interpreter={"rows": 4, "cols": 300})],
    screen=REDUCES,
)
def liger_cross_entropy(case, seeded):
    logits = rows_of(case, seeded, "logits", requires_grad=True)
    target = seeded.randint(0, case.cols, (case.rows,), name="target")

    def launch():
        loss = LigerCrossEntropyFunction.apply(logits.clone(), target, None)[0]
        loss.backward()
        return loss

    return launch


@kernel_spec(kernel=_dyt_fwd_kernel, cases=ROWS[:1])
def liger_dyt_forward(case, seeded):
    x = rows_of(case, seeded, "x")
    alpha = seeded.full((1,), 0.5, dtype=case.dtype, name="alpha")
    gamma, beta = (seeded.normal((case.cols,), dtype=case.dtype, name=name) for name in ("gamma", "beta"))
    return lambda: LigerDyTFunction.apply(x, alpha, gamma, beta)


@kernel_spec(kernel=_sparsemax_forward_kernel, candidates=WARPS, cases=ROWS, screen=REDUCES)
def liger_sparsemax_forward(case, seeded):
    x = rows_of(case, seeded, "x")
    return lambda: LigerSparsemaxFunction.apply(x, -1)


@kernel_spec(kernel=_kldiv_kernel_backward, candidates=WARPS, cases=ROWS)
def liger_kl_div_backward(case, seeded):
    predicted = rows_of(case, seeded, "predicted", requires_grad=True)
    true = seeded.uniform((case.rows, case.cols), low=0.01, dtype=case.dtype, name="true")
    return lambda: LigerKLDivLossFunction.apply(predicted, true).backward()


@kernel_spec(
    kernel=_triton_rope,
    candidates=WARPS,
    cases=[Case(batch=2, heads=8, steps=512, dim=128, dtype="bfloat16", interpreter={"batch": 1, "steps": 5})],
)
def liger_rope(case, seeded):
    q, k = (
        seeded.normal((case.batch, case.heads, case.steps, case.dim), dtype=case.dtype, name=name)
        for name in ("q", "k")
    )
    cos, sin = (
        seeded.uniform((1, case.steps, case.dim), low=-1.0, dtype=case.dtype, name=name) for name in ("cos", "sin")
    )
    return lambda: LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)


@kernel_spec(
    kernel=_fused_up_proj_swiglu_kernel,
    candidates=grid(BLOCK_N=[64, 128], num_warps=[4, 8]),
    cases=[Case(tokens=256, hidden=256, inner=128, experts=4, interpreter={"tokens": 3, "hidden": 40, "inner": 20})],
    screen=REDUCES,
)
def liger_fused_moe(case, seeded):
    x = seeded.normal((case.tokens, case.hidden), dtype="bfloat16", name="x")
    up = seeded.normal((case.experts, 2 * case.inner, case.hidden), dtype="bfloat16", name="up")
    down = seeded.normal((case.experts, case.hidden, case.inner), dtype="bfloat16", name="down")
    experts = seeded.randint(0, case.experts, (case.tokens, 2), dtype="int32", name="experts")
    weights = seeded.uniform((case.tokens, 2), dtype="bfloat16", name="weights")
    return lambda: LigerFusedMoEFunction.apply(x, up, down, experts, weights)
