"""Softmax attention with a deterministic backward pass: no atomics, every sum in a fixed order."""

import math
from typing import Any

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_MOST_HEAD_DIM = 256
_LOG2_E = tl.constexpr(1.4426950408889634)

# The interpreter multiplies the raw bits of bfloat16 operands; float32 holds the same values.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _product(a, b, total):
    """Add a @ b to total, as float32."""
    if _INTERPRETED:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, total, input_precision="ieee")


@triton.jit
def _load_tile(base, rows, n_rows, dims, n_dims, stride_row, stride_dim):
    """Load rows x dims, zero outside."""
    tile = base + rows[:, None] * stride_row + dims[None, :] * stride_dim
    return tl.load(tile, mask=(rows[:, None] < n_rows) & (dims[None, :] < n_dims), other=0.0)


@triton.jit
def _visible(rows, cols, seq_q, seq_k, CAUSAL: tl.constexpr):
    """Tell which keys a query sees; the last query sees every key."""
    visible = (cols < seq_k)[None, :]
    if CAUSAL:
        visible = visible & (cols[None, :] <= rows[:, None] + (seq_k - seq_q))
    return visible


@triton.jit
def _attention_fwd(
    q, k, v, o, lse, heads, group, seq_q, seq_k, head_dim, scale,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    CAUSAL: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    batch_head = tl.program_id(1).to(tl.int64)
    batch, head = batch_head // heads, batch_head % heads
    rows = first.to(tl.int64) + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    k += batch * stride_kb + (head // group) * stride_kh
    v += batch * stride_vb + (head // group) * stride_vh
    queries = _load_tile(q + batch * stride_qb + head * stride_qh, rows, seq_q, dims, head_dim, stride_qs, stride_qd)
    end = seq_k
    if CAUSAL:
        end = tl.minimum(seq_k, first + BLOCK_M + seq_k - seq_q)
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    weight = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        keys = _load_tile(k, cols, seq_k, dims, head_dim, stride_ks, stride_kd)
        values = _load_tile(v, cols, seq_k, dims, head_dim, stride_vs, stride_vd)
        scores = _product(queries, tl.trans(keys), tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32))
        scores = tl.where(_visible(rows, cols, seq_q, seq_k, CAUSAL), scores * (scale * _LOG2_E), float("-inf"))
        # Every query sees the first key, so largest is finite after the first block.
        new_largest = tl.maximum(largest, tl.max(scores, 1))
        shares = tl.exp2(scores - new_largest[:, None])
        decay = tl.exp2(largest - new_largest)
        weight = weight * decay + tl.sum(shares, 1)
        total = _product(shares.to(values.dtype), values, total * decay[:, None])
        largest = new_largest
    tile = o + (batch_head * seq_q + rows[:, None]) * head_dim + dims[None, :]
    valid = (rows[:, None] < seq_q) & (dims[None, :] < head_dim)
    tl.store(tile, (total / weight[:, None]).to(o.dtype.element_ty), mask=valid)
    tl.store(lse + batch_head * seq_q + rows, (largest + tl.log2(weight)) / _LOG2_E, mask=rows < seq_q)


@triton.jit
def _attention_delta(
    o, do, delta, heads, seq_q, head_dim,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_dob, stride_doh, stride_dos, stride_dod,
    BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    batch_head = tl.program_id(1).to(tl.int64)
    batch, head = batch_head // heads, batch_head % heads
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    out = _load_tile(o + batch * stride_ob + head * stride_oh, rows, seq_q, dims, head_dim, stride_os, stride_od)
    grad = _load_tile(do + batch * stride_dob + head * stride_doh, rows, seq_q, dims, head_dim, stride_dos, stride_dod)
    products = out.to(tl.float32) * grad.to(tl.float32)
    tl.store(delta + batch_head * seq_q + rows, tl.sum(products, 1), mask=rows < seq_q)


@triton.jit
def _attention_dq(
    q, k, v, do, lse, delta, dq, heads, group, seq_q, seq_k, head_dim, scale,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    stride_dob, stride_doh, stride_dos, stride_dod,
    CAUSAL: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    batch_head = tl.program_id(1).to(tl.int64)
    batch, head = batch_head // heads, batch_head % heads
    rows = first.to(tl.int64) + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    k += batch * stride_kb + (head // group) * stride_kh
    v += batch * stride_vb + (head // group) * stride_vh
    queries = _load_tile(q + batch * stride_qb + head * stride_qh, rows, seq_q, dims, head_dim, stride_qs, stride_qd)
    grad = _load_tile(do + batch * stride_dob + head * stride_doh, rows, seq_q, dims, head_dim, stride_dos, stride_dod)
    # A row outside has the weight exp2(-inf) = 0.
    log_weight = tl.load(lse + batch_head * seq_q + rows, mask=rows < seq_q, other=float("inf"))
    shift = tl.load(delta + batch_head * seq_q + rows, mask=rows < seq_q, other=0.0)
    end = seq_k
    if CAUSAL:
        end = tl.minimum(seq_k, first + BLOCK_M + seq_k - seq_q)
    total = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        keys = _load_tile(k, cols, seq_k, dims, head_dim, stride_ks, stride_kd)
        values = _load_tile(v, cols, seq_k, dims, head_dim, stride_vs, stride_vd)
        zeros = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        scores = _product(queries, tl.trans(keys), zeros) * scale - log_weight[:, None]
        visible = _visible(rows, cols, seq_q, seq_k, CAUSAL)
        shares = tl.exp2(tl.where(visible, scores * _LOG2_E, float("-inf")))
        d_scores = shares * (_product(grad, tl.trans(values), zeros) - shift[:, None])
        total = _product(d_scores.to(keys.dtype), keys, total)
    tile = dq + (batch_head * seq_q + rows[:, None]) * head_dim + dims[None, :]
    valid = (rows[:, None] < seq_q) & (dims[None, :] < head_dim)
    tl.store(tile, (total * scale).to(dq.dtype.element_ty), mask=valid)


@triton.jit
def _attention_dkdv(
    q, k, v, do, lse, delta, dk, dv, heads, group, seq_q, seq_k, head_dim, scale,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    stride_dob, stride_doh, stride_dos, stride_dod,
    CAUSAL: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_N
    batch_kv_head = tl.program_id(1).to(tl.int64)
    kv_heads = heads // group
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    cols = first.to(tl.int64) + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, BLOCK_D)
    keys = _load_tile(k + batch * stride_kb + kv_head * stride_kh, cols, seq_k, dims, head_dim, stride_ks, stride_kd)
    values = _load_tile(v + batch * stride_vb + kv_head * stride_vh, cols, seq_k, dims, head_dim, stride_vs, stride_vd)
    begin = 0
    if CAUSAL:
        # Earlier queries see no key of this block.
        begin = tl.maximum(first - (seq_k - seq_q), 0) // BLOCK_M * BLOCK_M
    dk_total = tl.zeros((BLOCK_N, BLOCK_D), dtype=tl.float32)
    dv_total = tl.zeros((BLOCK_N, BLOCK_D), dtype=tl.float32)
    # The heads that share these keys follow each other here; to add them from several programs would need atomics.
    for member in range(group):
        head = kv_head * group + member
        q_head = q + batch * stride_qb + head * stride_qh
        do_head = do + batch * stride_dob + head * stride_doh
        statistics = (batch * heads + head) * seq_q
        for start in range(begin, seq_q, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M).to(tl.int64)
            queries = _load_tile(q_head, rows, seq_q, dims, head_dim, stride_qs, stride_qd)
            grad = _load_tile(do_head, rows, seq_q, dims, head_dim, stride_dos, stride_dod)
            # A row outside has the weight exp2(-inf) = 0.
            log_weight = tl.load(lse + statistics + rows, mask=rows < seq_q, other=float("inf"))
            shift = tl.load(delta + statistics + rows, mask=rows < seq_q, other=0.0)
            zeros = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
            scores = _product(keys, tl.trans(queries), zeros) * scale - log_weight[None, :]
            visible = tl.trans(_visible(rows, cols, seq_q, seq_k, CAUSAL))
            shares = tl.exp2(tl.where(visible, scores * _LOG2_E, float("-inf")))
            dv_total = _product(shares.to(grad.dtype), grad, dv_total)
            d_scores = shares * (_product(values, tl.trans(grad), zeros) - shift[None, :])
            dk_total = _product(d_scores.to(queries.dtype), queries, dk_total)
    tile = (batch_kv_head * seq_k + cols[:, None]) * head_dim + dims[None, :]
    valid = (cols[:, None] < seq_k) & (dims[None, :] < head_dim)
    tl.store(dk + tile, (dk_total * scale).to(dk.dtype.element_ty), mask=valid)
    tl.store(dv + tile, dv_total.to(dv.dtype.element_ty), mask=valid)


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = True, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend every query to the keys that it sees.

    Args:
        q: Shape (batch, heads, seq_q, head_dim), bfloat16, float16 or float32, any strides; head_dim at most 256.
        k: Shape (batch, kv_heads, seq_k, head_dim); heads is a multiple of kv_heads.
        v: Shape of k.
        causal: Whether query i sees only the keys up to i + seq_k - seq_q.
        scale: What scores are multiplied by; None: 1 / sqrt(head_dim).

    Returns:
        The output, shape of q, contiguous; and the log of the sum of exponentials, (batch, heads, seq_q), float32.

    Raises:
        TypeError: The dtypes are not supported or differ.
        ValueError: The shapes do not fit, or the devices differ.
    """
    batch, heads, seq_q, head_dim, kv_heads, seq_k = _sizes(q, k, v, causal=causal)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((batch, heads, seq_q), dtype=torch.float32, device=q.device)
    if o.numel():
        _attention_fwd[lambda meta: (triton.cdiv(seq_q, meta["BLOCK_M"]), batch * heads)](
            q, k, v, o, lse, heads, heads // kv_heads, seq_q, seq_k, head_dim, _scale(scale, head_dim),
            *q.stride(), *k.stride(), *v.stride(),
            CAUSAL=causal, BLOCK_D=_block_d(head_dim), BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2,
        )  # fmt: skip
    return o, lse


def attention_backward(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    *,
    causal: bool = True,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give the gradients of q, k and v.

    Args:
        do: Gradient of the output, shape and dtype of q, any strides.
        q: As given to `attention_forward`.
        k: As given to `attention_forward`.
        v: As given to `attention_forward`.
        o: Its first result.
        lse: Its second result.
        causal: As given to `attention_forward`.
        scale: As given to `attention_forward`.

    Returns:
        dq, dk and dv, contiguous, in the shape and dtype of what they belong to.

    Raises:
        TypeError: The dtypes are not supported or differ.
        ValueError: The shapes do not fit, or the devices differ.
    """
    batch, heads, seq_q, head_dim, kv_heads, seq_k = _sizes(q, k, v, causal=causal)
    if do.shape != q.shape or o.shape != q.shape or do.dtype != q.dtype or o.dtype != q.dtype:
        raise ValueError(
            f"do and o must be like q, {tuple(q.shape)} {q.dtype}, "
            f"not {tuple(do.shape)} {do.dtype} and {tuple(o.shape)} {o.dtype}"
        )
    if tuple(lse.shape) != (batch, heads, seq_q) or lse.dtype != torch.float32 or not lse.is_contiguous():
        raise ValueError(f"lse must be what attention_forward gave, not {tuple(lse.shape)} {lse.dtype}")
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    dk = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    dv = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    if not dq.numel():
        return dq, dk.zero_(), dv.zero_()
    block_d = _block_d(head_dim)
    delta = torch.empty_like(lse)
    _attention_delta[lambda meta: (triton.cdiv(seq_q, meta["BLOCK_M"]), batch * heads)](
        o, do, delta, heads, seq_q, head_dim, *o.stride(), *do.stride(), BLOCK_D=block_d, BLOCK_M=64, num_warps=4
    )
    shared = (heads, heads // kv_heads, seq_q, seq_k, head_dim, _scale(scale, head_dim))
    strides = (*q.stride(), *k.stride(), *v.stride(), *do.stride())
    _attention_dq[lambda meta: (triton.cdiv(seq_q, meta["BLOCK_M"]), batch * heads)](
        q, k, v, do, lse, delta, dq, *shared, *strides,
        CAUSAL=causal, BLOCK_D=block_d, BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2,
    )  # fmt: skip
    _attention_dkdv[lambda meta: (triton.cdiv(seq_k, meta["BLOCK_N"]), batch * kv_heads)](
        q, k, v, do, lse, delta, dk, dv, *shared, *strides,
        CAUSAL=causal, BLOCK_D=block_d, BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2,
    )  # fmt: skip
    return dq, dk, dv


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = True, scale: float | None = None
) -> torch.Tensor:
    """Attend as `attention_forward` does; gradients flow to q, k and v.

    Args and errors are those of `attention_forward`; the result is its first.
    """
    result: torch.Tensor = _Attention.apply(q, k, v, causal, scale)
    return result


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None
    ) -> torch.Tensor:
        o, lse = attention_forward(q, k, v, causal=causal, scale=scale)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal, ctx.scale = causal, scale
        return o

    @staticmethod
    def backward(ctx: Any, do: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        grads = attention_backward(do, *ctx.saved_tensors, causal=ctx.causal, scale=ctx.scale)
        return (*grads, None, None)


def _sizes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> tuple[int, int, int, int, int, int]:
    """Check the inputs; return batch, heads, seq_q, head_dim, kv_heads and seq_k."""
    if q.ndim != 4 or k.ndim != 4 or v.shape != k.shape:
        raise ValueError(
            "attention takes q (batch, heads, seq, head_dim) and k and v of one shape, "
            f"not {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if q.dtype not in _DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise TypeError(
            f"attention takes one dtype, bfloat16, float16 or float32, not {q.dtype}, {k.dtype} and {v.dtype}"
        )
    if k.device != q.device or v.device != q.device:
        raise ValueError(f"attention takes inputs of one device, not {q.device}, {k.device} and {v.device}")
    batch, heads, seq_q, head_dim = q.shape
    kv_batch, kv_heads, seq_k, kv_dim = k.shape
    if (kv_batch, kv_dim) != (batch, head_dim):
        raise ValueError(f"q {tuple(q.shape)} and k {tuple(k.shape)} differ in batch or head_dim")
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"heads={heads} must be a multiple of kv_heads={kv_heads}")
    if not 1 <= head_dim <= _MOST_HEAD_DIM:
        raise ValueError(f"head_dim={head_dim} must be 1 to {_MOST_HEAD_DIM}")
    if seq_k < 1 or (causal and seq_k < seq_q):
        raise ValueError(f"seq_k={seq_k} must be at least 1, and at least seq_q={seq_q} where causal")
    return batch, heads, seq_q, head_dim, kv_heads, seq_k


def _scale(scale: float | None, head_dim: int) -> float:
    return 1.0 / math.sqrt(head_dim) if scale is None else scale


def _block_d(head_dim: int) -> int:
    """Return the padded head: a power of two that tensor cores take."""
    return max(16, int(triton.next_power_of_2(head_dim)))
