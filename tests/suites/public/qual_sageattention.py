"""Specs of kernels that sageattention ships.

Its entry `sageattn` takes tensors on a GPU only, so that the functions behind it are launched.
"""

from sageattention import attn_qk_int8_per_block, attn_qk_int8_per_block_causal, quant_per_block
from sageattention.attn_qk_int8_per_block import _attn_fwd
from sageattention.attn_qk_int8_per_block_causal import _attn_fwd as _attn_fwd_causal
from sageattention.quant_per_block import quant_per_block_int8_kernel

from pytest_kernelqual import Case, grid, kernel_spec

CANDIDATES = grid(num_warps=[4, 8], num_stages=[2, 3, 4])
CASES = [
    Case(batch=2, heads=4, steps=1000, dim=dim, dtype="float16", interpreter={"batch": 1, "heads": 1, "steps": 130})
    for dim in (64, 128)
]


def inputs(case, seeded):
    shape = (case.batch, case.heads, case.steps, case.dim)
    return [seeded.normal(shape, dtype=case.dtype, name=name) for name in ("q", "k", "v")]


@kernel_spec(kernel=quant_per_block_int8_kernel, candidates=grid(num_warps=[1, 2, 4, 8]), cases=CASES)
def sage_quantize(case, seeded):
    q, k, _ = inputs(case, seeded)
    return lambda: quant_per_block.per_block_int8(q, k)


def attention(forward, case, seeded):
    q, k, v = inputs(case, seeded)

    def launch():
        q_int8, q_scale, k_int8, k_scale = quant_per_block.per_block_int8(q, k)
        return forward(q_int8, k_int8, v, q_scale, k_scale)

    return launch


@kernel_spec(kernel=_attn_fwd, candidates=CANDIDATES, cases=CASES, screen="warps change the order of a sum")
def sage_attention(case, seeded):
    return attention(attn_qk_int8_per_block.forward, case, seeded)


@kernel_spec(kernel=_attn_fwd_causal, candidates=CANDIDATES, cases=CASES, screen="warps change the order of a sum")
def sage_attention_causal(case, seeded):
    return attention(attn_qk_int8_per_block_causal.forward, case, seeded)
