"""Qualification of attention: forward, and both kernels of the backward pass."""

from typing import Any

import torch
from attention import _attention_dkdv, _attention_dq, _attention_fwd, attention, attention_forward

from pytest_kernelqual import Case, Config, Seeded, grid, kernel_spec

_SMALL = {"batch": 1, "heads": 2, "kv_heads": 1, "seq_q": 70, "seq_k": 70, "head_dim": 32}
_CASES = [
    Case(
        batch=2, heads=8, kv_heads=2, seq_q=1024, seq_k=1024, head_dim=64, dtype="bfloat16", causal=True,
        interpreter=_SMALL,
    ),
    Case(
        batch=1, heads=8, kv_heads=8, seq_q=777, seq_k=900, head_dim=128, dtype="float16", causal=False,
        interpreter={"heads": 1, "kv_heads": 1, "seq_q": 20, "seq_k": 70, "head_dim": 24},
    ),
    Case(
        batch=2, heads=4, kv_heads=2, seq_q=130, seq_k=257, head_dim=24, dtype="float32", causal=True,
        interpreter={"batch": 1, "heads": 1, "kv_heads": 1, "seq_q": 20, "seq_k": 30},
    ),
    Case(
        batch=1, heads=16, kv_heads=4, seq_q=1, seq_k=515, head_dim=64, dtype="bfloat16", causal=True,
        interpreter={"heads": 1, "kv_heads": 1, "seq_k": 30},
    ),
]  # fmt: skip


def _inputs(case: Case, seeded: Seeded, *, requires_grad: bool = False) -> tuple[Any, Any, Any]:
    """Make q, k and v as a projection leaves them: heads inside the sequence, so that heads are not contiguous."""

    def heads_inside(heads: int, seq: int, name: str) -> Any:
        strides = (seq * heads * case.head_dim, case.head_dim, heads * case.head_dim, 1)
        return seeded.normal(
            (case.batch, heads, seq, case.head_dim),
            dtype=case.dtype, strides=strides, requires_grad=requires_grad, name=name,
        )  # fmt: skip

    return (
        heads_inside(case.heads, case.seq_q, "q"),
        heads_inside(case.kv_heads, case.seq_k, "k"),
        heads_inside(case.kv_heads, case.seq_k, "v"),
    )


def _spills(config: Config, case: Case) -> bool | str:
    """Rule out what a chain of FMAs in registers cannot hold; it would compile for minutes."""
    wide = 128 in {config.get("BLOCK_M"), config.get("BLOCK_N")}
    return "float32 tiles of 128 rows spill" if case.dtype == "float32" and wide else False


# BLOCK_N is the order of the online softmax and stays.
# A warp owns 16 rows, so that no row is ever reduced across warps: num_warps is BLOCK_M / 16, or less.
@kernel_spec(
    kernel=_attention_fwd,
    candidates=[
        *grid(BLOCK_M=[64], num_warps=[4], num_stages=[1, 2, 3]),
        *grid(BLOCK_M=[128], num_warps=[4, 8], num_stages=[2, 3]),
    ],
    cases=_CASES,
    key=("heads", "seq_q", "seq_k", "head_dim", "dtype", "causal"),
    exclude=_spills,
)
def attention_fwd(case: Case, seeded: Seeded) -> Any:
    """Qualify query tiles and pipeline depths."""
    q, k, v = _inputs(case, seeded)
    return lambda: attention_forward(q, k, v, causal=case.causal)


# BLOCK_N is the order of the sum over keys and stays.
@kernel_spec(
    kernel=_attention_dq,
    candidates=[
        *grid(BLOCK_M=[64], num_warps=[4], num_stages=[1, 2, 3]),
        *grid(BLOCK_M=[128], num_warps=[8], num_stages=[1, 2]),
    ],
    cases=_CASES,
    key=("heads", "seq_q", "seq_k", "head_dim", "dtype", "causal"),
    exclude=_spills,
)
def attention_dq(case: Case, seeded: Seeded) -> Any:
    """Qualify query tiles of the gradient of q."""
    q, k, v = _inputs(case, seeded, requires_grad=True)
    do = seeded.normal(tuple(q.shape), dtype=case.dtype, name="do")
    return lambda: torch.autograd.grad(attention(q, k, v, causal=case.causal), (q, k, v), do)


# BLOCK_M is the order of the sum over queries and stays.
@kernel_spec(
    kernel=_attention_dkdv,
    candidates=[
        *grid(BLOCK_N=[64], num_warps=[4], num_stages=[1, 2, 3]),
        Config(BLOCK_N=128, num_warps=8, num_stages=1),
        Config(BLOCK_N=128, num_warps=8, num_stages=2),
    ],
    cases=_CASES,
    key=("heads", "seq_q", "seq_k", "head_dim", "dtype", "causal"),
    exclude=_spills,
)
def attention_dkdv(case: Case, seeded: Seeded) -> Any:
    """Qualify key tiles of the gradients of k and v, which arrive in `.grad`."""
    q, k, v = _inputs(case, seeded, requires_grad=True)
    do = seeded.normal(tuple(q.shape), dtype=case.dtype, name="do")

    def launch() -> Any:
        out = attention(q, k, v, causal=case.causal)
        torch.autograd.backward(out, do)
        return out.detach()

    return launch
