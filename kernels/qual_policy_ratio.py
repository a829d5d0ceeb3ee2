"""Qualification of the probability-ratio kernel."""

from collections.abc import Callable

import torch
from policy_ratio import _policy_ratio, policy_ratio

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_policy_ratio,
    candidates=grid(BLOCK=[128, 256, 512, 2048], num_warps=[2, 4]),
    cases=[
        Case(
            sequences=1024,
            tokens=8192,
            row_stride=8192,
            reference=True,
            mask=True,
            dtype="float32",
            interpreter={"sequences": 2, "tokens": 512, "row_stride": 512},
        ),
        Case(sequences=1, tokens=515, row_stride=515, reference=True, mask=False, dtype="float16"),
        Case(
            sequences=63,
            tokens=1111,
            row_stride=1120,
            reference=False,
            mask=True,
            dtype="bfloat16",
            interpreter={"sequences": 2, "tokens": 300, "row_stride": 301},
        ),
    ],
    key=("tokens", "dtype"),
)
def policy_ratio_and_kl(case: Case, seeded: Seeded) -> Callable[[], tuple[torch.Tensor, torch.Tensor | None]]:
    """Make log-probabilities of a policy, of the policy that sampled and of a reference."""

    def log_probs(name: str) -> torch.Tensor:
        made: torch.Tensor = seeded.normal(
            (case.sequences, case.tokens),
            mean=-2.0,
            std=0.5,
            dtype=case.dtype,
            strides=(case.row_stride, 1),
            name=name,
        )
        return made

    current, old = log_probs("current"), log_probs("old")
    reference = log_probs("reference") if case.reference else None
    mask = seeded.bernoulli((case.sequences, case.tokens), p=0.8, dtype="bool", name="mask") if case.mask else None
    return lambda: policy_ratio(current, old, reference, mask)
