"""Qualification of paged decode attention."""

from typing import Any

from decode_attention import _decode_merge, _decode_split, decode_attention

from pytest_kernelqual import Case, Seeded, grid, kernel_spec

_CASES = [
    Case(
        batch=16, heads=32, kv_heads=8, head_dim=128, page_size=16, most_pages=128, dtype="bfloat16",
        interpreter={"batch": 2, "heads": 2, "kv_heads": 1, "most_pages": 18},
    ),
    Case(
        batch=7, heads=8, kv_heads=8, head_dim=64, page_size=32, most_pages=33, dtype="float16",
        interpreter={"batch": 1, "heads": 2, "kv_heads": 2, "most_pages": 3},
    ),
    Case(
        batch=1, heads=12, kv_heads=4, head_dim=80, page_size=7, most_pages=100, dtype="float32",
        interpreter={"heads": 2, "kv_heads": 1, "most_pages": 40},
    ),
]  # fmt: skip


def _launch(case: Case, seeded: Seeded) -> Any:
    pages = case.batch * case.most_pages
    shape = (pages, case.page_size, case.kv_heads, case.head_dim)
    q = seeded.normal((case.batch, case.heads, case.head_dim), dtype=case.dtype, name="q")
    k_cache = seeded.normal(shape, dtype=case.dtype, name="k_cache")
    v_cache = seeded.normal(shape, dtype=case.dtype, name="v_cache")
    owned = seeded.permutation(pages, dtype="int32", name="pages").view(case.batch, case.most_pages)
    lengths = seeded.randint(0, case.most_pages * case.page_size + 1, (case.batch,), dtype="int32", name="lengths")
    return lambda: decode_attention(q, k_cache, v_cache, owned, lengths)


@kernel_spec(
    kernel=_decode_split,
    candidates=grid(num_warps=[4], num_stages=[1, 2, 3, 4]),
    cases=_CASES,
    key=("heads", "kv_heads", "head_dim", "dtype"),
)
def decode_split(case: Case, seeded: Seeded) -> Any:
    """Qualify pipeline depths."""
    return _launch(case, seeded)


@kernel_spec(
    kernel=_decode_split,
    candidates=grid(num_warps=[2, 8, 16], num_stages=[2]),
    cases=_CASES,
    key=("heads", "kv_heads", "head_dim", "dtype"),
    screen="16 query rows leave warps only the keys to share, so that num_warps is part of the order of the softmax",
)
def decode_split_warps(case: Case, seeded: Seeded) -> Any:
    """Find the numbers of warps that keep the bytes."""
    return _launch(case, seeded)


@kernel_spec(
    kernel=_decode_merge,
    candidates=grid(BLOCK_D=[32, 64, 128], num_warps=[1, 2, 4]),
    cases=_CASES,
    key=("heads", "head_dim", "dtype"),
)
def decode_merge(case: Case, seeded: Seeded) -> Any:
    """Qualify the ordered merge of splits."""
    return _launch(case, seeded)
