"""Attention of one new token per sequence to a paged key and value cache."""

import math

import torch
import triton
import triton.language as tl

SPLIT_TOKENS = 256
"""Cached tokens that one program reads; fixed, so that a sequence's bytes do not depend on the rest of the batch."""

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_INDEX_DTYPES = (torch.int32, torch.int64)
_LOG2_E = tl.constexpr(1.4426950408889634)

# The interpreter multiplies the raw bits of bfloat16 operands; float32 holds the same values.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _decode_split(
    q,
    k_cache,
    v_cache,
    pages,
    lengths,
    partials,
    largest_of,
    weight_of,
    kv_heads,
    group,
    head_dim,
    page_size,
    splits,
    scale,
    stride_qb,
    stride_qh,
    stride_qd,
    stride_kp,
    stride_kt,
    stride_kh,
    stride_kd,
    stride_vp,
    stride_vt,
    stride_vh,
    stride_vd,
    stride_pb,
    stride_pp,
    SPLIT: tl.constexpr,
    BLOCK_G: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    batch_kv_head = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    length = tl.load(lengths + batch)
    first = split * SPLIT
    members = tl.arange(0, BLOCK_G)
    dims = tl.arange(0, BLOCK_D)
    heads = kv_head * group + members
    in_group = members < group
    in_head = dims < head_dim
    query = q + batch * stride_qb + heads[:, None] * stride_qh + dims[None, :] * stride_qd
    queries = tl.load(query, mask=in_group[:, None] & in_head[None, :], other=0.0)
    if _INTERPRETED:
        queries = queries.to(tl.float32)
    largest = tl.full((BLOCK_G,), float("-inf"), dtype=tl.float32)
    weight = tl.zeros((BLOCK_G,), dtype=tl.float32)
    total = tl.zeros((BLOCK_G, BLOCK_D), dtype=tl.float32)
    # A split past the end of its sequence runs no iteration; the merge does not read it.
    for start in range(first, tl.minimum(first + SPLIT, length).to(tl.int32), BLOCK_N):
        tokens = start + tl.arange(0, BLOCK_N)
        cached = tokens < length
        page = tl.load(pages + batch * stride_pb + (tokens // page_size) * stride_pp, mask=cached, other=0)
        page = page.to(tl.int64)
        slot = tokens % page_size
        key = k_cache + page * stride_kp + slot * stride_kt + kv_head * stride_kh
        keys = tl.load(key[:, None] + dims[None, :] * stride_kd, mask=cached[:, None] & in_head[None, :], other=0.0)
        value = v_cache + page * stride_vp + slot * stride_vt + kv_head * stride_vh
        values = tl.load(value[:, None] + dims[None, :] * stride_vd, mask=cached[:, None] & in_head[None, :], other=0.0)
        if _INTERPRETED:
            keys = keys.to(tl.float32)
            values = values.to(tl.float32)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * _LOG2_E)
        scores = tl.where(cached[None, :], scores, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, 1))
        shares = tl.exp2(scores - new_largest[:, None])
        decay = tl.exp2(largest - new_largest)
        weight = weight * decay + tl.sum(shares, 1)
        total = tl.dot(shares.to(values.dtype), values, total * decay[:, None], input_precision="ieee")
        largest = new_largest
    slots = (batch * kv_heads * group + heads) * splits + split
    tl.store(partials + slots[:, None] * head_dim + dims[None, :], total, mask=in_group[:, None] & in_head[None, :])
    tl.store(largest_of + slots, largest, mask=in_group)
    tl.store(weight_of + slots, weight, mask=in_group)


@triton.jit
def _decode_merge(
    partials,
    largest_of,
    weight_of,
    lengths,
    out,
    heads,
    head_dim,
    splits,
    SPLIT: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    batch_head = tl.program_id(0).to(tl.int64)
    dims = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    used = tl.cdiv(tl.load(lengths + batch_head // heads), SPLIT).to(tl.int32)
    slots = batch_head * splits
    largest = tl.full((), float("-inf"), dtype=tl.float32)
    weight = tl.full((), 0.0, dtype=tl.float32)
    total = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for split in range(used):
        split_largest = tl.load(largest_of + slots + split)
        split_weight = tl.load(weight_of + slots + split)
        part = tl.load(partials + (slots + split) * head_dim + dims, mask=dims < head_dim, other=0.0)
        new_largest = tl.maximum(largest, split_largest)
        decay = tl.exp2(largest - new_largest)
        share = tl.exp2(split_largest - new_largest)
        total = total * decay + part * share
        weight = weight * decay + split_weight * share
        largest = new_largest
    # An empty sequence attends to nothing and gives zeros.
    result = total / tl.where(used > 0, weight, 1.0)
    tl.store(out + batch_head * head_dim + dims, result.to(out.dtype.element_ty), mask=dims < head_dim)


def decode_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    pages: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    """Attend one query per sequence to the tokens of its cache; a sequence's result does not depend on the batch.

    Args:
        q: Shape (batch, heads, head_dim), bfloat16, float16 or float32, any strides; head_dim at most 256.
        k_cache: Shape (pages, page_size, kv_heads, head_dim), of the same dtype; heads is a multiple of kv_heads.
        v_cache: Shape of k_cache.
        pages: Shape (batch, most_pages), int32 or int64: the page of tokens i * page_size and following.
        lengths: Shape (batch,), int32 or int64: cached tokens of each sequence, at most most_pages * page_size.
        scale: What scores are multiplied by; None: 1 / sqrt(head_dim).

    Returns:
        Shape of q, contiguous; zeros for an empty sequence.

    Raises:
        TypeError: The dtypes are not supported or differ.
        ValueError: The shapes do not fit, or the devices differ.
    """
    _check(q, k_cache, v_cache, pages, lengths)
    batch, heads, head_dim = q.shape
    page_size, kv_heads = k_cache.shape[1], k_cache.shape[2]
    out = torch.empty((batch, heads, head_dim), dtype=q.dtype, device=q.device)
    if not out.numel():
        return out
    group = heads // kv_heads
    splits = max(1, triton.cdiv(pages.shape[1] * page_size, SPLIT_TOKENS))
    partials = torch.empty((batch, heads, splits, head_dim), dtype=torch.float32, device=q.device)
    largest_of = torch.empty((batch, heads, splits), dtype=torch.float32, device=q.device)
    weight_of = torch.empty_like(largest_of)
    block_d = max(16, triton.next_power_of_2(head_dim))
    _decode_split[(batch * kv_heads, splits)](
        q, k_cache, v_cache, pages, lengths.contiguous(), partials, largest_of, weight_of,
        kv_heads, group, head_dim, page_size, splits, 1.0 / math.sqrt(head_dim) if scale is None else scale,
        *q.stride(), *k_cache.stride(), *v_cache.stride(), *pages.stride(),
        SPLIT=SPLIT_TOKENS, BLOCK_G=max(16, triton.next_power_of_2(group)), BLOCK_D=block_d, BLOCK_N=64,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    _decode_merge[lambda meta: (batch * heads, triton.cdiv(head_dim, meta["BLOCK_D"]))](
        partials, largest_of, weight_of, lengths.contiguous(), out, heads, head_dim, splits,
        SPLIT=SPLIT_TOKENS, BLOCK_D=block_d, num_warps=2,
    )  # fmt: skip
    return out


def _check(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, pages: torch.Tensor, lengths: torch.Tensor
) -> None:
    if q.ndim != 3 or k_cache.ndim != 4 or v_cache.shape != k_cache.shape or k_cache.shape[3] != q.shape[2]:
        raise ValueError(
            "decode_attention takes q (batch, heads, head_dim) and caches (pages, page_size, kv_heads, head_dim), "
            f"not {tuple(q.shape)}, {tuple(k_cache.shape)} and {tuple(v_cache.shape)}"
        )
    if q.dtype not in _DTYPES or k_cache.dtype != q.dtype or v_cache.dtype != q.dtype:
        raise TypeError(
            "decode_attention takes one dtype, bfloat16, float16 or float32, "
            f"not {q.dtype}, {k_cache.dtype} and {v_cache.dtype}"
        )
    if pages.dtype not in _INDEX_DTYPES or lengths.dtype not in _INDEX_DTYPES:
        raise TypeError(f"pages and lengths must be int32 or int64, not {pages.dtype} and {lengths.dtype}")
    batch, heads, head_dim = q.shape
    if pages.ndim != 2 or pages.shape[0] != batch or tuple(lengths.shape) != (batch,):
        raise ValueError(
            f"pages must be ({batch}, most_pages) and lengths ({batch},), "
            f"not {tuple(pages.shape)} and {tuple(lengths.shape)}"
        )
    if k_cache.shape[1] < 1 or k_cache.shape[2] < 1 or heads % k_cache.shape[2]:
        raise ValueError(
            f"page_size={k_cache.shape[1]} must be at least 1, heads={heads} a multiple of kv_heads={k_cache.shape[2]}"
        )
    if not 1 <= head_dim <= 256:
        raise ValueError(f"head_dim={head_dim} must be 1 to 256")
    devices = {tensor.device for tensor in (q, k_cache, v_cache, pages, lengths)}
    if len(devices) != 1:
        raise ValueError(f"decode_attention takes inputs of one device, not {', '.join(sorted(map(str, devices)))}")
