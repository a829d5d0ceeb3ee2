"""Qualification of the token log-probability kernel."""

from collections.abc import Callable

import torch
from token_log_prob import _token_log_prob, token_log_prob

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_token_log_prob,
    # The sum has an order of its own, so warps are free; the block is part of that order, so it is not.
    candidates=grid(STAGES=[1, 2, 3], num_warps=[4, 8, 16]),
    # A program walks one whole row, however far it prefetches.
    grid_independent=("STAGES",),
    cases=[
        Case(
            tokens=1024,
            vocabulary=151936,
            row_stride=151936,
            dtype="bfloat16",
            interpreter={"tokens": 3, "vocabulary": 4096, "row_stride": 4096},
        ),
        Case(
            tokens=1,
            vocabulary=151936,
            row_stride=151936,
            dtype="bfloat16",
            interpreter={"vocabulary": 5003, "row_stride": 5003},
        ),
        Case(
            tokens=255,
            vocabulary=50257,
            row_stride=50304,
            dtype="float32",
            interpreter={"tokens": 3, "vocabulary": 2049, "row_stride": 2052},
        ),
        Case(tokens=7, vocabulary=515, row_stride=515, dtype="float16", interpreter={"tokens": 4}),
    ],
    key=("vocabulary", "dtype"),
)
def token_log_prob_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Make logits and one id a token."""
    logits = seeded.normal(
        (case.tokens, case.vocabulary), std=3.0, dtype=case.dtype, strides=(case.row_stride, 1), name="logits"
    )
    ids = seeded.randint(0, case.vocabulary, (case.tokens,), dtype="int64", name="ids")
    return lambda: token_log_prob(logits, ids)
