"""Qualification of the embedding kernels."""

from collections.abc import Callable

import torch
from embedding import _embedding_backward, _embedding_forward, embedding
from embedding import embedding_backward as backward_of_embedding

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_embedding_forward,
    candidates=grid(BLOCK=[256, 512, 1024, 4096], num_warps=[2, 4]),
    # A program copies one whole row, whatever the block.
    grid_independent=("BLOCK",),
    cases=[
        Case(
            tokens=8192,
            vocabulary=32000,
            dim=4096,
            row_stride=4096,
            dtype="bfloat16",
            interpreter={"tokens": 5, "vocabulary": 100, "dim": 1030, "row_stride": 1030},
        ),
        Case(tokens=1, vocabulary=11, dim=515, row_stride=520, dtype="float16"),
        Case(
            tokens=777,
            vocabulary=999,
            dim=1111,
            row_stride=1120,
            dtype="float32",
            interpreter={"tokens": 5, "vocabulary": 9},
        ),
    ],
    key=("dim", "dtype"),
)
def embedding_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Look up ids of which many occur twice."""
    ids = seeded.randint(0, case.vocabulary, (case.tokens,), dtype="int64", name="ids")
    weight = seeded.normal((case.vocabulary, case.dim), dtype=case.dtype, strides=(case.row_stride, 1), name="weight")
    return lambda: embedding(ids, weight)


@kernel_spec(
    kernel=_embedding_backward,
    candidates=grid(BLOCK=[256, 512, 1024, 2048], num_warps=[2, 4]),
    cases=[
        Case(
            tokens=8192,
            vocabulary=4096,
            dim=4096,
            row_stride=4096,
            dtype="bfloat16",
            interpreter={"tokens": 4, "vocabulary": 3, "dim": 515, "row_stride": 515},
        ),
        Case(tokens=1, vocabulary=2, dim=515, row_stride=520, dtype="float16"),
        Case(
            tokens=777,
            vocabulary=13,
            dim=1111,
            row_stride=1120,
            dtype="float32",
            interpreter={"tokens": 3, "vocabulary": 2, "dim": 700, "row_stride": 704},
        ),
    ],
    key=("dim", "dtype"),
)
def embedding_backward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Sum gradients of ids that occur many times: the order of a run is what must not move."""
    ids = seeded.randint(0, case.vocabulary, (case.tokens,), dtype="int32", name="ids")
    dout = seeded.normal((case.tokens, case.dim), dtype=case.dtype, strides=(case.row_stride, 1), name="dout")
    return lambda: backward_of_embedding(dout, ids, case.vocabulary)
