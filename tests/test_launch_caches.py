"""Wrappers with a launch cache, as libraries put around Triton's kernels: configs reach the launches all the same."""

from typing import Any

import pytest
import torch
from launch_parts import N
from triton.runtime.jit import KernelInterface

from pytest_kernelqual.launch import describe_kernel, dry_run, observed
from pytest_kernelqual.model.config import Config

pytest_plugins = ["launch_fixtures"]


class Remembering(KernelInterface[Any]):  # type: ignore[misc]
    """Launch what the first launch of each tensor type has compiled, past Triton's kernel object."""

    def __init__(self, fn: Any) -> None:
        """Wrap a kernel at any level."""
        self.fn = fn
        self.kernels: dict[Any, Any] = {}

    def run(self, *args: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
        """Launch, and remember."""
        key = args[0].dtype
        if self.kernels.get(key) is None:  # the interpreter gives nothing to remember
            self.kernels[key] = self.fn.run(*args, grid=grid, warmup=warmup, **keywords)
        else:
            self.kernels[key][(4, 1, 1)](*args)
        return self.kernels[key]


@pytest.mark.parametrize("name", ["scaled", "derived"])
def test_forced_launches_are_not_remembered_ones(kernels: Any, x: torch.Tensor, name: str) -> None:
    """Before and after production's own, which go on by what they remember."""
    remembering = Remembering(getattr(kernels, name))
    assert "BLOCK" in describe_kernel(remembering).parameters
    for block in (32, 128):
        with observed(remembering, Config(BLOCK=block)) as log:
            kernels.by_lambda(remembering, x, BLOCK=64)
        log.prove()
        assert [launch.config["BLOCK"] for launch in log.launches] == [block]
        with observed(remembering, None) as log:
            kernels.by_lambda(remembering, x, BLOCK=64)
        log.prove()
        assert [launch.config["BLOCK"] for launch in log.launches] == [64]


def test_autotuned(kernels: Any, x: torch.Tensor) -> None:
    """The wrapper is around the autotuner, which is around heuristics."""
    remembering = Remembering(kernels.tuned_over_derived)
    for config in describe_kernel(remembering).configs:
        with observed(remembering, config) as log:
            kernels.by_lambda(remembering, x)
        log.prove()
        assert log.launches[0].config["BLOCK"] == config["BLOCK"]


def test_another_kernel_runs_as_in_production(compiled: Any, x: torch.Tensor) -> None:
    """What is remembered of it is launched."""
    remembering = Remembering(compiled.scaled)
    with observed(compiled.derived, Config(BLOCK=32)) as log:
        for _ in range(2):
            compiled.by_lambda(remembering, x, BLOCK=64)
            compiled.by_lambda(compiled.derived, x)
    log.prove()
    assert len(remembering.kernels) == 1


def test_dry_runs(compiled: Any, x: torch.Tensor) -> None:
    """Each launch is told, remembered or not, and nothing that cannot be launched is remembered."""
    remembering = Remembering(compiled.scaled)
    for _ in range(2):
        with dry_run() as run:
            compiled.by_lambda(remembering, x, BLOCK=64)
            with observed(remembering, Config(BLOCK=32)):
                compiled.by_lambda(remembering, x, BLOCK=64)
        assert [launch.grid for launch in run.launches] == [(-(-N // 64),), (-(-N // 32),)]
        assert (run.strays, run.retained(), remembering.kernels) == (0, 0, {})


class Streamed(Remembering):
    """Called in a way of its own, as what torch's compiler generates."""

    def run(self, *args: Any, stream: int) -> str:  # type: ignore[override]
        """Launch something that Triton does not see."""
        assert args
        return f"on stream {stream}"


def test_wrapper_that_is_called_in_its_own_way(compiled: Any, x: torch.Tensor) -> None:
    """It runs as ever."""
    streamed = Streamed(compiled.scaled)
    with dry_run() as run, observed(streamed, Config(BLOCK=32)):
        assert streamed.run(x, stream=7) == "on stream 7"
    assert run.launches == []
