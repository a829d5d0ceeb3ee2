"""Checks of the kernels' entry points against plain torch, under the Triton interpreter.

Run as a script with the folder of the kernels: prints one JSON object, from the name of each check to its traceback
or null. A process of its own, because TRITON_INTERPRET is read when triton is first imported.
"""

import json
import math
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

sys.path.insert(0, sys.argv[1])

import attention as attention_module
import decode_attention as decode_module
import gemm as gemm_module
import quantize
from cumsum import cumsum
from fp8_gemm import fp8_gemm
from histogram import histogram
from scatter_add import scatter_add
from split_k_gemm import split_k_gemm
from top_k import top_k

# Timing several configs needs a device; the first is the fixed launch.
gemm_module._gemm.configs = gemm_module._gemm.configs[:1]

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# The interpreter truncates where it narrows to bfloat16: one unit in the last place, and a little for the order.
TOLERANCE = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 2e-5}


def close(result: torch.Tensor, expected: torch.Tensor, tolerance: float | None = None) -> None:
    """Compare with a float64 reference, relative to its largest value."""
    assert result.shape == expected.shape
    limit = (tolerance or TOLERANCE[result.dtype]) * max(1.0, expected.abs().max().item())
    largest = (result.double() - expected).abs().max().item()
    assert largest <= limit, f"differs by {largest}, limit {limit}"


def equal(result: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare dtype and bytes."""
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    bits = [tensor.contiguous().view(torch.uint8) for tensor in (result, expected)]
    assert torch.equal(*bits), f"{result} is not {expected}"


def normal(*shape: int, dtype: torch.dtype = torch.float32, column_major: bool = False) -> torch.Tensor:
    """Make normally distributed values; column_major swaps the last two axes in memory."""
    values = torch.randn(shape).to(dtype)
    return values.mT.contiguous().mT if column_major else values


def gemm_matches_torch() -> None:
    """Odd sizes, one row, more than one iteration, and both layouts."""
    for dtype in DTYPES:
        for m, n, k, column_major in ((130, 70, 100, False), (1, 3, 1, True), (20, 65, 64, True)):
            a = normal(m, k, dtype=dtype, column_major=not column_major)
            b = normal(k, n, dtype=dtype, column_major=column_major)
            close(gemm_module.gemm(a, b), a.double() @ b.double())
    assert gemm_module.gemm(torch.empty(0, 4), torch.empty(4, 3)).shape == (0, 3)
    equal(gemm_module.gemm(torch.empty(2, 0), torch.empty(0, 3)), torch.zeros(2, 3))


def split_k_gemm_matches_torch() -> None:
    """The fixed launch, other splits, more splits than blocks, and an equal order for equal SPLIT_K."""
    for dtype in DTYPES:
        a, b = normal(5, 200, dtype=dtype), normal(200, 70, dtype=dtype, column_major=True)
        expected = a.double() @ b.double()
        fixed = split_k_gemm(a, b)
        close(fixed, expected)
        for splits in (1, 3, 9):
            close(split_k_gemm(a, b, config={"SPLIT_K": splits, "BLOCK_K": 32}), expected)
        equal(split_k_gemm(a, b, config={"SPLIT_K": 4, "num_stages": 2}), fixed)


def fp8_gemm_matches_torch() -> None:
    """A k that ends inside a scaled block, and an n that ends inside a block of rows."""
    for m, n, k, column_major in ((3, 140, 200, False), (1, 20, 128, True)):
        a = normal(m, k).to(torch.float8_e4m3fn)
        b = normal(n, k, column_major=column_major).to(torch.float8_e4m3fn)
        a_scale, b_scale = torch.rand(m, math.ceil(k / 128)), torch.rand(math.ceil(n / 128), math.ceil(k / 128))
        a_real = a.double() * a_scale.double().repeat_interleave(128, 1)[:, :k]
        b_real = b.double() * b_scale.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:n, :k]
        for dtype in DTYPES:
            close(fp8_gemm(a, b, a_scale, b_scale, dtype=dtype), a_real @ b_real.T)


def attention_reference(q: Any, k: Any, v: Any, *, causal: bool) -> torch.Tensor:
    """Attend in the dtype of the inputs, scores and all."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        seq_q, seq_k = scores.shape[-2:]
        seen = torch.ones(seq_q, seq_k, dtype=torch.bool).tril(seq_k - seq_q)
        scores = scores.masked_fill(~seen, -math.inf)
    result: torch.Tensor = torch.softmax(scores, -1) @ v
    return result


def attention_matches_torch() -> None:
    """Output and gradients: shared heads, offsets, odd head dims, tiles partly empty, heads that are not contiguous."""
    for dtype, heads, kv_heads, seq_q, seq_k, head_dim, causal in (
        (torch.float32, 2, 1, 70, 70, 20, True),
        (torch.float32, 2, 2, 5, 67, 16, True),
        (torch.float16, 2, 1, 66, 5, 33, False),
        (torch.bfloat16, 2, 1, 9, 70, 32, True),
        (torch.bfloat16, 1, 1, 1, 1, 8, True),
    ):
        inputs = [
            normal(1, seq, count, head_dim, dtype=dtype).transpose(1, 2)
            for seq, count in ((seq_q, heads), (seq_k, kv_heads), (seq_k, kv_heads))
        ]
        ours = [tensor.detach().requires_grad_() for tensor in inputs]
        theirs = [tensor.detach().double().requires_grad_() for tensor in inputs]
        out = attention_module.attention(*ours, causal=causal)
        expected = attention_reference(*theirs, causal=causal)
        close(out.detach(), expected.detach())
        do = normal(*out.shape, dtype=dtype)
        torch.autograd.backward(out, do)
        torch.autograd.backward(expected, do.double())
        for mine, reference in zip(ours, theirs, strict=True):
            assert mine.grad is not None
            assert reference.grad is not None
            close(mine.grad, reference.grad, 2 * TOLERANCE[dtype])


def attention_gives_the_log_of_the_sum() -> None:
    """The second result of the forward pass, on which the backward pass builds."""
    q, k, v = normal(2, 2, 9, 16), normal(2, 2, 70, 16), normal(2, 2, 70, 16)
    _, lse = attention_module.attention_forward(q, k, v, causal=False, scale=0.5)
    close(lse, torch.logsumexp(q.double() @ k.double().mT * 0.5, -1))


def decode_attention_matches_torch() -> None:
    """Pages in any order, several splits, a page size that is no power of two, an empty sequence."""
    lengths = torch.tensor([300, 0, 7], dtype=torch.int32)
    page_size, most_pages = 7, 43
    for dtype in DTYPES:
        q = normal(3, 4, 24, dtype=dtype)
        k_cache, v_cache = (normal(3 * most_pages, page_size, 2, 24, dtype=dtype) for _ in range(2))
        pages = torch.randperm(3 * most_pages).view(3, most_pages)
        out = decode_module.decode_attention(q, k_cache, v_cache, pages, lengths)
        for row, length in enumerate(lengths.tolist()):
            k, v = (
                cache[pages[row]].flatten(0, 1)[:length].transpose(0, 1).double()[None] for cache in (k_cache, v_cache)
            )
            expected = attention_reference(q[row].double()[None, :, None], k, v, causal=False)[0, :, 0]
            close(out[row], expected if length else torch.zeros(4, 24, dtype=torch.float64))
        alone = decode_module.decode_attention(q[2:], k_cache, v_cache, pages[2:], lengths[2:])
        equal(alone, out[2:])


def cumsum_matches_torch() -> None:
    """Integers exactly, past 2 ** 63 too; real values by float32 sums."""
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        x = torch.randint(-100, 100, (3, 1500)).to(dtype)
        equal(cumsum(x), torch.cumsum(x, 1))
        columns = x[:, :7].T.contiguous().T
        equal(cumsum(columns), torch.cumsum(columns, 1))
    large = torch.full((1, 5), 2**62)
    equal(cumsum(large), torch.cumsum(large, 1))
    for dtype in DTYPES:
        x = normal(2, 2048, dtype=dtype)
        close(cumsum(x), torch.cumsum(x.double(), 1))
    assert cumsum(torch.empty(3, 0)).shape == (3, 0)


def top_k_matches_torch() -> None:
    """Ties in the order of their places, signed zeros as equal, NaN first, infinities, rows longer than a block."""
    special = torch.tensor([[1.0, math.nan, -0.0, 0.0, math.inf, -math.inf, math.nan, 1.0]])
    _, places = top_k(special, 8)
    assert places.tolist() == [[1, 6, 4, 0, 7, 2, 3, 5]]
    for dtype in DTYPES:
        for x in (normal(3, 37, dtype=dtype), normal(2, 4100, dtype=dtype), normal(5, 9, dtype=dtype).T):
            values, places = top_k(x, 4)
            ordered, order = torch.sort(x, dim=1, descending=True, stable=True)
            equal(values, ordered[:, :4])
            equal(places, order[:, :4])


def quantize_int8_matches_torch() -> None:
    """Values and scales to the bit, a row of zeros, rows longer than a block, and columns in memory order."""
    for dtype in DTYPES:
        for x in (normal(3, 1100, dtype=dtype), normal(6, 20, dtype=dtype).T, torch.zeros(1, 5, dtype=dtype)):
            q, scales = quantize.quantize_int8(x)
            largest = x.float().abs().amax(1)
            expected = torch.where(largest > 0, largest / 127.0, torch.ones(()))
            equal(scales, expected)
            equal(q, torch.round(x.float() / expected[:, None]).to(torch.int8))
            for out in DTYPES:
                close(quantize.dequantize(q, scales, dtype=out), q.double() * scales.double()[:, None])


def quantize_fp8_matches_torch() -> None:
    """Values and scales to the bit, over every magnitude that the format has."""
    for dtype in DTYPES:
        spread = torch.exp2(torch.rand(20, 300) * 24 - 22) * normal(20, 300).sign()
        for x in (spread.to(dtype), normal(40, 5, dtype=dtype).T, torch.zeros(1, 5, dtype=dtype)):
            q, scales = quantize.quantize_fp8(x)
            blocks = scales.shape[1]
            padded = torch.nn.functional.pad(x.float(), (0, blocks * 128 - x.shape[1])).view(-1, blocks, 128)
            largest = padded.abs().amax(2)
            expected = torch.where(largest > 0, largest / 448.0, torch.ones(()))
            equal(scales, expected)
            scaled = (padded / expected[..., None]).clamp(-448, 448).flatten(1)[:, : x.shape[1]]
            equal(q, scaled.to(torch.float8_e4m3fn))
            real = q.double() * scales.double().repeat_interleave(128, 1)[:, : x.shape[1]]
            close(quantize.dequantize(q, scales, dtype=torch.float32), real)


def quantize_fp8_rounds_ties_to_even() -> None:
    """Every value of the format, and every midpoint between two of them."""
    held = torch.arange(0, 0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    halves = (held[1:] + held[:-1]) / 2
    for values in (held, halves):
        x = torch.cat([values, -values])[:, None].repeat(1, 2)
        x[:, 1] = 448.0
        q, scales = quantize.quantize_fp8(x)
        equal(scales, torch.ones_like(scales))
        equal(q, x.to(torch.float8_e4m3fn))


def histogram_matches_torch() -> None:
    """Several blocks, values outside of the bins, bins that are no power of two, a stride, nothing to count."""
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        values = torch.randint(0 if dtype == torch.uint8 else -3, 15, (5000,)).to(dtype)
        for drawn in (values, values[::3]):
            inside = drawn[(drawn >= 0) & (drawn < 11)].long()
            equal(histogram(drawn, 11), torch.bincount(inside, minlength=11).int())
    equal(histogram(torch.zeros(3, dtype=torch.int32), 1), torch.tensor([3], dtype=torch.int32))
    equal(histogram(torch.zeros(0, dtype=torch.int32), 2), torch.zeros(2, dtype=torch.int32))


def scatter_add_adds_in_order() -> None:
    """The bytes of a loop over the sources; rows without any, indices outside, both layouts."""
    for dtype in (torch.float16, torch.float32):
        for column_major in (False, True):
            base = normal(4, 600, dtype=dtype, column_major=column_major)
            src = normal(9, 600, dtype=dtype, column_major=column_major)
            index = torch.tensor([2, 0, 2, -1, 2, 0, 4, 2, 3])
            kept = base.clone()
            total = base.to(torch.float32, copy=True)
            for row, added in zip(index.tolist(), src.float(), strict=True):
                if 0 <= row < 4:
                    total[row] += added
            equal(scatter_add(base, index, src), total.to(dtype))
            equal(base, kept)
    base, index = torch.ones(2, 3, dtype=torch.bfloat16), torch.zeros(0, dtype=torch.int32)
    equal(scatter_add(base, index, torch.empty(0, 3, dtype=torch.bfloat16)), base)


def wrong_inputs_are_refused() -> None:
    """Each message shows the value seen."""
    f32, f64, i32 = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.int32)
    f8, scales = torch.zeros(2, 3).to(torch.float8_e4m3fn), torch.ones(2, 1)
    q, kv = torch.zeros(1, 2, 4, 16), torch.zeros(1, 2, 3, 16)
    meta = torch.zeros(3, 2, device="meta")
    refused: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ValueError, "(2, 3) and (2, 3)", lambda: gemm_module.gemm(f32, f32)),
        (TypeError, "torch.float64", lambda: gemm_module.gemm(f64, f64.T)),
        (ValueError, "cpu and meta", lambda: gemm_module.gemm(f32, meta)),
        (ValueError, "(2, 3) and (2, 3)", lambda: split_k_gemm(f32, f32)),
        (ValueError, "SPLIT_K=0", lambda: split_k_gemm(f32, f32.T, config={"SPLIT_K": 0})),
        (ValueError, "'SPLITK'", lambda: split_k_gemm(f32, f32.T, config={"SPLITK": 2})),
        (TypeError, "torch.float32", lambda: fp8_gemm(f32, f32, scales, scales)),
        (ValueError, "b_scale of shape (1, 1)", lambda: fp8_gemm(f8, f8, scales, scales)),
        (ValueError, "seq_k=3", lambda: attention_module.attention(q, kv, kv)),
        (ValueError, "heads=2", lambda: attention_module.attention(q, kv[:, :0], kv[:, :0], causal=False)),
        (TypeError, "torch.float64", lambda: attention_module.attention(q, q, q.double())),
        (ValueError, "(2, 3)", lambda: decode_module.decode_attention(f32, q, q, i32, i32)),
        (ValueError, "(2,)", lambda: cumsum(torch.zeros(2))),
        (TypeError, "torch.float64", lambda: cumsum(f64)),
        (ValueError, "k=4", lambda: top_k(f32, 4)),
        (TypeError, "torch.int32", lambda: top_k(i32, 1)),
        (TypeError, "torch.int32", lambda: quantize.quantize_int8(i32)),
        (ValueError, "(2,)", lambda: quantize.quantize_fp8(torch.zeros(2))),
        (ValueError, "(2, 1), not (2,)", lambda: quantize.dequantize(f8, torch.ones(2))),
        (TypeError, "torch.float32", lambda: histogram(torch.zeros(2), 2)),
        (ValueError, "bins=0", lambda: histogram(i32[0], 0)),
        (ValueError, "(3,)", lambda: scatter_add(f32, torch.zeros(3, dtype=torch.int64), f32)),
        (TypeError, "torch.int8", lambda: scatter_add(f32, torch.zeros(2, dtype=torch.int8), f32)),
    ]
    for kind, part, call in refused:
        with pytest.raises(kind, match=re.escape(part)):
            call()


CHECKS = (
    gemm_matches_torch,
    split_k_gemm_matches_torch,
    fp8_gemm_matches_torch,
    attention_matches_torch,
    attention_gives_the_log_of_the_sum,
    decode_attention_matches_torch,
    cumsum_matches_torch,
    top_k_matches_torch,
    quantize_int8_matches_torch,
    quantize_fp8_matches_torch,
    quantize_fp8_rounds_ties_to_even,
    histogram_matches_torch,
    scatter_add_adds_in_order,
    wrong_inputs_are_refused,
)


def main() -> None:
    """Run every check from the same seed and print what became of it."""
    outcomes: dict[str, str | None] = {}
    for check in CHECKS:
        torch.manual_seed(0)
        try:
            check()
        except Exception:  # noqa: BLE001 - reported, whatever it is
            outcomes[check.__name__] = traceback.format_exc()
        else:
            outcomes[check.__name__] = None
    sys.stdout.write(json.dumps(outcomes))


main()
