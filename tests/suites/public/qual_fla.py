"""Specs of kernels that fla-core ships: autotuned under heuristics, with the library's own tuner, behind autograd."""

from fla.modules.activations import swiglu, swish
from fla.modules.activations.ops import swiglu_fwd_kernel, swish_bwd_kernel
from fla.modules.causal_conv1d.ops import causal_conv1d, causal_conv1d_fwd_kernel
from fla.modules.norm.l2norm import l2norm, l2norm_bwd_kernel, l2norm_fwd_kernel
from fla.modules.rotary.ops import rotary_embedding, rotary_embedding_kernel
from fla.ops.attn.parallel import parallel_attn, parallel_attn_fwd_kernel
from fla.ops.common.chunk_h import chunk_fwd_kernel_h
from fla.ops.common.chunk_o import chunk_bwd_kernel_dv, chunk_fwd_kernel_o
from fla.ops.common.fused_recurrent import fused_recurrent_fwd_kernel
from fla.ops.hgrn import chunk_hgrn
from fla.ops.hgrn.chunk import chunk_hgrn_fwd_kernel_h
from fla.ops.simple_gla import chunk_simple_gla, fused_recurrent_simple_gla
from fla.ops.utils import chunk_local_cumsum
from fla.ops.utils.cumsum import chunk_local_cumsum_scalar_kernel
from fla.ops.utils.softmax import softmax_fwd, softmax_fwd_kernel

from pytest_kernelqual import Case, grid, kernel_spec

REDUCES = "warps or tiles change the order of a sum"
SEQUENCES = [
    Case(batch=2, steps=1024, heads=4, dim=64, dtype="bfloat16", interpreter={"batch": 1, "steps": 70, "heads": 1})
]


def attention_inputs(case, seeded, **given):
    shape = (case.batch, case.steps, case.heads, case.dim)
    return [seeded.normal(shape, dtype=case.dtype, name=name, std=0.5, **given) for name in ("q", "k", "v")]


def gates(case, seeded):
    return seeded.uniform((case.batch, case.steps, case.heads), low=-0.1, high=0.0, name="g")


@kernel_spec(kernel=chunk_local_cumsum_scalar_kernel, cases=SEQUENCES, screen=REDUCES)
def fla_chunk_local_cumsum(case, seeded):
    g = gates(case, seeded)
    return lambda: chunk_local_cumsum(g, 64)


@kernel_spec(
    kernel=chunk_fwd_kernel_h,
    candidates=grid(BK=[32, 64], BV=[32, 64], num_warps=[2, 4], num_stages=2),
    cases=SEQUENCES,
    screen=REDUCES,
)
def fla_chunk_states(case, seeded):
    q, k, v = attention_inputs(case, seeded)
    g = gates(case, seeded)
    return lambda: chunk_simple_gla(q, k, v, g, output_final_state=True)


@kernel_spec(kernel=chunk_fwd_kernel_o, cases=SEQUENCES, screen=REDUCES)
def fla_chunk_outputs(case, seeded):
    q, k, v = attention_inputs(case, seeded)
    g = gates(case, seeded)
    return lambda: chunk_simple_gla(q, k, v, g)


@kernel_spec(kernel=chunk_bwd_kernel_dv, cases=SEQUENCES, screen=REDUCES)
def fla_chunk_backward_dv(case, seeded):
    q, k, v = attention_inputs(case, seeded, requires_grad=True)
    upstream = seeded.normal((case.batch, case.steps, case.heads, case.dim), dtype=case.dtype, name="upstream")
    # Without gates: on Hopper the library refuses the gated one with triton 3.4 to 3.7.0, which miscompiles it.
    return lambda: chunk_simple_gla(q, k, v)[0].backward(upstream)


@kernel_spec(kernel=fused_recurrent_fwd_kernel, candidates=grid(num_warps=[1, 2, 4]), cases=SEQUENCES, screen=REDUCES)
def fla_fused_recurrent(case, seeded):
    q, k, v = attention_inputs(case, seeded)
    g = gates(case, seeded)
    return lambda: fused_recurrent_simple_gla(q, k, v, g, output_final_state=True)


@kernel_spec(
    kernel=parallel_attn_fwd_kernel,
    candidates=grid(num_warps=[2, 4, 8], num_stages=[1, 2]),
    cases=SEQUENCES,
    screen=REDUCES,
)
def fla_parallel_attention(case, seeded):
    q, k, v = attention_inputs(case, seeded)
    return lambda: parallel_attn(q, k, v)


@kernel_spec(
    kernel=chunk_hgrn_fwd_kernel_h,
    cases=[Case(batch=2, steps=1024, dim=512, interpreter={"batch": 1, "steps": 30, "dim": 40})],
)
def fla_chunk_hgrn(case, seeded):
    x = seeded.normal((case.batch, case.steps, case.dim), name="x")
    g = seeded.uniform((case.batch, case.steps, case.dim), low=-0.1, high=0.0, name="g")
    return lambda: chunk_hgrn(x, g)


ROWS = [Case(rows=4096, cols=128, dtype="bfloat16", interpreter={"rows": 100})]


@kernel_spec(kernel=l2norm_fwd_kernel, cases=ROWS, screen=REDUCES)
def fla_l2norm_forward(case, seeded):
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="x")
    return lambda: l2norm(x)


@kernel_spec(kernel=l2norm_bwd_kernel, cases=ROWS, screen=REDUCES)
def fla_l2norm_backward(case, seeded):
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="x", requires_grad=True)
    upstream = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="upstream")
    return lambda: l2norm(x).backward(upstream)


@kernel_spec(kernel=softmax_fwd_kernel, cases=ROWS, screen=REDUCES)
def fla_softmax(case, seeded):
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="x")
    return lambda: softmax_fwd(x)


@kernel_spec(kernel=swiglu_fwd_kernel, candidates=grid(B=[1024, 4096], num_warps=[4, 8, 16]), cases=ROWS)
def fla_swiglu(case, seeded):
    x, y = (seeded.normal((case.rows, case.cols), dtype=case.dtype, name=name) for name in ("x", "y"))
    return lambda: swiglu(x, y)


@kernel_spec(kernel=swish_bwd_kernel, candidates=grid(B=[1024, 4096], num_warps=[4, 8, 16]), cases=ROWS)
def fla_swish_backward(case, seeded):
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="x", requires_grad=True)
    upstream = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="upstream")
    return lambda: swish(x).backward(upstream)


@kernel_spec(kernel=rotary_embedding_kernel, cases=SEQUENCES)
def fla_rotary(case, seeded):
    x = seeded.normal((case.batch, case.steps, case.heads, case.dim), dtype=case.dtype, name="x")
    cos, sin = (
        seeded.uniform((case.steps, case.dim // 2), low=-1.0, dtype=case.dtype, name=name) for name in ("cos", "sin")
    )
    return lambda: rotary_embedding(x, cos, sin)


@kernel_spec(
    kernel=causal_conv1d_fwd_kernel,
    cases=[Case(batch=2, steps=1024, dim=512, dtype="bfloat16", interpreter={"batch": 1, "steps": 30, "dim": 40})],
)
def fla_causal_conv1d(case, seeded):
    x = seeded.normal((case.batch, case.steps, case.dim), dtype=case.dtype, name="x")
    weight = seeded.normal((case.dim, 4), dtype=case.dtype, name="weight")
    return lambda: causal_conv1d(x, weight, activation="silu")
