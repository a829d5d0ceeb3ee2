"""Qualification of the cross-entropy kernels."""

from collections.abc import Callable

import torch
from cross_entropy import (
    _cross_entropy_backward,
    _cross_entropy_forward,
    cross_entropy,
)
from cross_entropy import cross_entropy_backward as backward_of_cross_entropy

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_cross_entropy_forward,
    # The sum has an order of its own, so warps are free; the block is part of that order, so it is not.
    candidates=grid(STAGES=[1, 3], num_warps=[4, 8, 16]),
    # A program walks one whole row, however far it prefetches.
    grid_independent=("STAGES",),
    cases=[
        Case(
            tokens=1024,
            vocabulary=128256,
            row_stride=128256,
            dtype="bfloat16",
            interpreter={"tokens": 3, "vocabulary": 8192, "row_stride": 8192},
        ),
        Case(tokens=1, vocabulary=515, row_stride=515, dtype="float16"),
        Case(
            tokens=255,
            vocabulary=50257,
            row_stride=50304,
            dtype="float32",
            interpreter={"tokens": 3, "vocabulary": 4099, "row_stride": 4100},
        ),
    ],
    key=("vocabulary", "dtype"),
)
def cross_entropy_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Make logits and targets of which the first is ignored."""
    logits, targets = _logits(case, seeded)
    return lambda: cross_entropy(logits, targets, ignore_index=0)


@kernel_spec(
    kernel=_cross_entropy_backward,
    candidates=grid(BLOCK=[512, 1024, 2048, 4096], num_warps=[4, 8]),
    cases=[
        Case(
            tokens=512,
            vocabulary=128256,
            row_stride=128256,
            dtype="bfloat16",
            interpreter={"tokens": 2, "vocabulary": 2048, "row_stride": 2048},
        ),
        Case(tokens=1, vocabulary=515, row_stride=515, dtype="float16"),
        Case(
            tokens=255,
            vocabulary=50257,
            row_stride=50304,
            dtype="float32",
            interpreter={"tokens": 3, "vocabulary": 1030, "row_stride": 1032},
        ),
    ],
    key=("vocabulary", "dtype"),
)
def cross_entropy_backward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Run the backward alone, on a log-sum close to the true one."""
    logits, targets = _logits(case, seeded)
    dloss = seeded.normal((case.tokens,), dtype="float32", name="dloss")
    log_sum = seeded.uniform((case.tokens,), low=12.0, high=14.0, dtype="float32", name="log_sum")
    return lambda: backward_of_cross_entropy(dloss, logits, targets, log_sum, ignore_index=0)


def _logits(case: Case, seeded: Seeded) -> tuple[torch.Tensor, torch.Tensor]:
    logits = seeded.normal(
        (case.tokens, case.vocabulary), std=2.0, dtype=case.dtype, strides=(case.row_stride, 1), name="logits"
    )
    return logits, seeded.randint(0, case.vocabulary, (case.tokens,), dtype="int64", name="targets")
