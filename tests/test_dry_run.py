"""Dry runs: nothing is launched, and what would be launched is told exactly."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from launch_parts import Launcher, N
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.tools.tensor_descriptor import TensorDescriptor

from pytest_kernelqual.errors import DryRunError, UnsupportedConfigError
from pytest_kernelqual.launch import DryLaunch, dry_run, fake_driver, observed
from pytest_kernelqual.model.config import Config

pytest_plugins = ["launch_fixtures"]

CUDA = GPUTarget("cuda", 90, 32)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the names of the kernels that the driver really launched."""
    names: list[str] = []
    real = Launcher.__call__

    def call(launcher: Launcher, *launch: Any) -> None:
        names.append(launcher.metadata.name)
        real(launcher, *launch)

    monkeypatch.setattr(Launcher, "__call__", call)
    return names


@pytest.fixture
def compilations() -> Iterator[list[bool]]:
    """Give, for each compilation that Triton was asked for, whether its cache had it."""
    hits: list[bool] = []
    with knobs.compilation.scope():
        knobs.compilation.listener = lambda **told: hits.append(told["cache_hit"])
        yield hits


def dry(kernels: Any, kernel: Any, config: Config | None, x: torch.Tensor, **named: Any) -> DryLaunch:
    """Return the only launch of a dry run."""
    with dry_run() as run, observed(kernel, config):
        kernels.by_lambda(kernel, x, **named)
    assert run.strays == 0
    (launch,) = run.launches
    return launch


class TestNothingIsLaunched:
    """Whatever is cached, whoever launches."""

    def test_launch_is_told_and_not_made(self, compiled: Any, x: torch.Tensor, launched: list[str]) -> None:
        """Also where the kernel was launched before, and again as ever after the block."""
        compiled.by_lambda(compiled.scaled, x, BLOCK=64)
        assert launched == ["scaled"]
        launch = dry(compiled, compiled.scaled, None, x, BLOCK=64)
        assert launched == ["scaled"]
        assert (launch.jit, launch.grid, launch.arguments.scalars) == (compiled.scaled, (4,), {"n": N})
        assert launch.compiled is None
        compiled.by_lambda(compiled.scaled, x, BLOCK=64)
        assert launched == ["scaled", "scaled"]

    @pytest.mark.usefixtures("launched")
    def test_launch_past_the_kernel_object(self, compiled: Any, x: torch.Tensor, launched: list[str]) -> None:
        """A library's own launch cache: kept back and counted."""
        y = torch.empty_like(x)
        kernel = compiled.scaled.warmup(x, y, N, BLOCK=64, grid=(4,))
        with dry_run() as run:
            kernel[(4, 1, 1)](x, y, N)
            kernel.run(4, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, y, N)
        assert (launched, run.launches, run.strays) == ([], [], 2)

    def test_observed_outside_of_the_block(self, compiled: Any, x: torch.Tensor, launched: list[str]) -> None:
        """The wrong order is a stray and no launch."""
        with observed(compiled.scaled, Config(num_warps=8)), dry_run() as run:
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
        assert (launched, run.launches, run.strays) == ([], [], 1)

    def test_other_threads(self, compiled: Any, x: torch.Tensor, launched: list[str]) -> None:
        """As autograd's backward."""
        with dry_run() as run:
            thread = threading.Thread(target=compiled.by_lambda, args=(compiled.scaled, x), kwargs={"BLOCK": 64})
            thread.start()
            thread.join()
        assert (launched, [launch.grid for launch in run.launches]) == ([], [(4,)])

    def test_warmup_is_told_without_a_grid(self, compiled: Any, x: torch.Tensor) -> None:
        """Production only asked for a compilation."""
        with dry_run() as run:
            compiled.scaled.warmup(x, x, N, BLOCK=64, grid=(4,))
        assert [launch.grid for launch in run.launches] == [None]

    @pytest.mark.usefixtures("compiled")
    def test_the_compiled_kernel_cannot_be_looked_at(self, compiled: Any, x: torch.Tensor) -> None:
        """Production that goes by it cannot be dry-run without compiling."""
        with dry_run(), pytest.raises(DryRunError, match="n_regs of a compiled kernel was asked for"):
            print(compiled.scaled[(4,)](x, x, N, BLOCK=64).n_regs)  # noqa: T201 - as production might
        with dry_run(compiling=True) as run:
            assert compiled.scaled[(4,)](x, x, N, BLOCK=64).metadata.num_warps == 4
        assert run.launches[0].compiled is not None

    def test_waiting_for_a_result_ends(self, compiled: Any, x: torch.Tensor) -> None:
        """Nothing computes it."""

        def wait() -> None:
            while True:
                compiled.by_lambda(compiled.scaled, x, BLOCK=64)

        with dry_run(most_launches=20) as run, pytest.raises(DryRunError, match="more than 20 launches"):
            wait()
        assert len(run.launches) == 21

    def test_interpreter(self, interpreter: Any, x: torch.Tensor) -> None:
        """It offers none of this, and says so."""
        with dry_run(), pytest.raises(DryRunError, match="interpreter specialises and compiles nothing"):
            interpreter.by_lambda(interpreter.scaled, x, BLOCK=64)
        with knobs.runtime.scope():
            knobs.runtime.interpret = True
            with pytest.raises(DryRunError, match="use a device, or a process without TRITON_INTERPRET=1"), dry_run():
                pass


class TestForced:
    """What is told is the forced launch."""

    @pytest.mark.parametrize("name", ["scaled", "hooked", "tuned_over_derived", "derived_over_tuned", "library_tuned"])
    def test_config_and_grid(self, compiled: Any, x: torch.Tensor, name: str) -> None:
        """Through every wrapper, with what follows from the config."""
        kernel = getattr(compiled, name)
        named = {"BLOCK": 64} if name == "scaled" else {}
        launch = dry(compiled, kernel, Config(BLOCK=32, num_warps=8, num_stages=4), x, **named)
        assert launch.grid == (7,)
        block = launch.jit.arg_names.index("BLOCK")
        assert launch.specialisation.constexprs[block,] == 32
        assert (launch.specialisation.options.num_warps, launch.specialisation.options.num_stages) == (8, 4)
        assert launch.keywords["num_warps"] == 8
        assert [hook.__name__ for hook in launch.hooks] == (["_hook"] if name == "hooked" else [])

    def test_grid_that_does_not_follow(self, compiled: Any, x: torch.Tensor) -> None:
        """Refused as in a launch."""
        with (
            dry_run() as run,
            observed(compiled.scaled, Config(BLOCK=32)),
            pytest.raises(UnsupportedConfigError, match="grid does not follow BLOCK"),
        ):
            compiled.by_tuple(compiled.scaled, x, BLOCK=64)
        assert run.launches == []

    def test_gluon(self, compiled: Any, x: torch.Tensor) -> None:
        """The specialisation is that of the other language."""
        launch = dry(compiled, compiled.gluon_copy, Config(BLOCK=256, WARPS=8, num_warps=8), x, BLOCK=128, WARPS=4)
        assert launch.specialisation.compile().metadata.num_warps == 8


class TestArguments:
    """Pointers by alias and alignment, the rest by value."""

    def test_pointers(self, compiled: Any, x: torch.Tensor) -> None:
        """Views share their storage's class, in this launch and later ones."""
        y = torch.empty_like(x)
        with dry_run() as run:
            compiled.negated[(1,)](x, x[2:], N, BLOCK=64)
            compiled.negated[(1,)](y, x[4:], N, BLOCK=64)
            compiled.negated[(1,)](torch.empty_like(x), torch.empty_like(x), N, BLOCK=64)
        told = [
            [(p.name, p.alias, p.offset_bytes, p.alignment_bytes) for p in one.arguments.pointers]
            for one in run.launches
        ]
        assert told[:2] == [[("x", 0, 0, 16), ("y", 0, 8, 8)], [("x", 1, 0, 16), ("y", 0, 16, 16)]]
        assert [alias for _, alias, *_ in told[2]] == [2, 3]

    def test_freed_storage_is_not_mistaken(self, compiled: Any, x: torch.Tensor) -> None:
        """An allocator gives the same address again."""
        with dry_run() as run:
            for _ in range(5):
                compiled.negated[(1,)](x, torch.empty(N), N, BLOCK=64)
        assert [launch.arguments.pointers[1].alias for launch in run.launches] == [1, 2, 3, 4, 5]

    def test_parts_of_descriptors_and_unknown_ones(self, compiled: Any, x: torch.Tensor) -> None:
        """Fields by name; what cannot be told is named."""
        descriptor = TensorDescriptor.from_tensor(x.reshape(10, 20), [2, 4])
        with dry_run() as run:
            compiled.negated.warmup(descriptor, torch.float32, 1.5, BLOCK=64, grid=(1,))
        arguments = run.launches[0].arguments
        assert [pointer.name for pointer in arguments.pointers] == ["x.base"]
        assert arguments.scalars["x.shape[1]"] == 20
        assert arguments.scalars["n"] == 1.5
        assert arguments.unknown == ("y",)


class TestCompiling:
    """The key is that of the launch."""

    @pytest.mark.parametrize("target", [CUDA, GPUTarget("cuda", 100, 32), GPUTarget("hip", "gfx942", 64)], ids=str)
    def test_compiled_elsewhere(
        self, compiled: Any, x: torch.Tensor, tmp_path: Path, compilations: list[bool], target: GPUTarget
    ) -> None:
        """What a specialisation compiles, a later launch finds; targets do not share code."""
        with knobs.cache.scope(), fake_driver(target):
            knobs.cache.dir = str(tmp_path)
            launch = dry(compiled, compiled.scaled, Config(BLOCK=128, num_warps=8), x, BLOCK=64)
            assert launch.specialisation.target == target
            assert not launch.specialisation.cached()
            made = launch.specialisation.compile()
            assert (made.hash, launch.specialisation.cached()) == (launch.specialisation.key, True)
            with dry_run(compiling=True) as run, observed(compiled.scaled, Config(BLOCK=128, num_warps=8)):
                compiled.by_lambda(compiled.scaled, x, BLOCK=64)
        assert compilations == [False, True]
        assert run.launches[0].compiled.hash == made.hash  # type: ignore[union-attr]  # it was compiled

    def test_launch_finds_what_was_compiled(
        self, compiled: Any, x: torch.Tensor, tmp_path: Path, compilations: list[bool], launched: list[str]
    ) -> None:
        """With a driver that launches."""
        with knobs.cache.scope():
            knobs.cache.dir = str(tmp_path)
            config = Config(BLOCK=16, num_warps=1)
            dry(compiled, compiled.negated, config, x, BLOCK=64).specialisation.compile()
            with observed(compiled.negated, config) as log:
                compiled.by_lambda(compiled.negated, x, BLOCK=64)
            log.prove()
        assert (compilations, launched) == ([False, True], ["negated"])

    @pytest.mark.usefixtures("compiled")
    def test_no_device(self, compiled: Any, x: torch.Tensor) -> None:
        """Under a fake driver nothing can be launched, not even by accident."""
        with fake_driver(CUDA), pytest.raises(DryRunError, match="there is no device"):
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)


def test_without_any_driver() -> None:
    """A machine without a GPU, where no driver was ever active; it is as before afterwards."""
    script = """
import torch, triton
from launch_parts import load
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from pytest_kernelqual.launch import dry_run, fake_driver
kernels = load("compiled")
with fake_driver(GPUTarget("hip", "gfx942", 64)), dry_run() as run:
    kernels.by_lambda(kernels.scaled, torch.zeros(100), BLOCK=64)
print(run.launches[0].grid, driver._active)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[0] == "(2,) None", done.stderr
