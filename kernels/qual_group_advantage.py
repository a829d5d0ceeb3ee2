"""Qualification of the group advantage kernel."""

from collections.abc import Callable

import torch
from group_advantage import _group_advantage, group_advantage

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_group_advantage,
    candidates=grid(BLOCK=[32, 64, 128, 256], num_warps=[1, 4]),
    cases=[
        Case(prompts=65536, group=16, row_stride=16, dtype="float32", interpreter={"prompts": 200}),
        Case(prompts=1, group=7, row_stride=7, dtype="float16"),
        Case(prompts=1031, group=9, row_stride=12, dtype="bfloat16", interpreter={"prompts": 131}),
    ],
    key=("group", "dtype"),
)
def group_advantage_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Make one reward for each answer."""
    rewards = seeded.normal((case.prompts, case.group), dtype=case.dtype, strides=(case.row_stride, 1), name="rewards")
    return lambda: group_advantage(rewards)
