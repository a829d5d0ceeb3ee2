"""What proves a launch, what is told about it, and that nothing stays behind."""

from typing import Any

import pytest
import torch
import triton
from launch_parts import FakeDriver, Launcher, N, load
from triton import knobs
from triton.compiler.compiler import CompiledKernel, LazyDict
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from pytest_kernelqual.errors import UnprovedLaunchError, UnsupportedConfigError
from pytest_kernelqual.launch import observed
from pytest_kernelqual.model.config import Config

pytest_plugins = ["launch_fixtures"]


class TestConfigAsArgument:
    """With `force=False` the launch got the config itself; it is only checked."""

    def test_carried(self, kernels: Any, x: torch.Tensor) -> None:
        """Entries that are the host's own are not looked for."""
        config = Config(BLOCK=32, num_warps=2, SPLITS=4)
        with observed(kernels.scaled, config, force=False) as log:
            kernels.by_tuple(kernels.scaled, x, block=32, BLOCK=config["BLOCK"], num_warps=config["num_warps"])
        log.prove()
        assert log.launches[0].config["BLOCK"] == 32

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            (Config(BLOCK=32), "launch 1 of kernel scaled carried BLOCK=64 instead of BLOCK=32"),
            (Config(BLOCK=64, num_warps=8), "carried num_warps=4 instead of num_warps=8"),
        ],
    )
    def test_not_carried(self, kernels: Any, x: torch.Tensor, config: Config, message: str) -> None:
        """Nothing is forced, and the difference is shown."""
        with observed(kernels.scaled, config, force=False) as log:
            kernels.by_tuple(kernels.scaled, x, 64)
        assert log.launches[0].config["BLOCK"] == 64
        with pytest.raises(UnprovedLaunchError, match=message):
            log.prove()


class TestParameterOfAnOptionsName:
    """A kernel may take `num_warps` as a parameter too, as some of liger-kernel do."""

    def test_by_keyword(self, kernels: Any, x: torch.Tensor) -> None:
        """It is the parameter and the launch option, on which no grid depends."""
        with observed(kernels.times_warps, Config(num_warps=8)) as log:
            kernels.by_tuple(kernels.times_warps, x, 64, num_warps=4)
        log.prove()
        assert log.launches[0].config["num_warps"] == 8

    def test_by_position(self, compiled: Any, x: torch.Tensor) -> None:
        """It is the parameter alone, so that the launch does not have the warps that it was to have."""
        with observed(compiled.times_warps, Config(num_warps=16)) as log:
            compiled.times_warps[(4,)](x, torch.empty_like(x), N, 64, 4)
        with pytest.raises(UnprovedLaunchError, match="carried num_warps=4 instead of num_warps=16"):
            log.prove()


class TestLaunchedOtherwise:
    """Launches past the kernel object are seen."""

    @pytest.mark.parametrize("config", [Config(BLOCK=32), Config(BLOCK=64, num_warps=8)])
    def test_launch_cache(self, compiled: Any, x: torch.Tensor, config: Config) -> None:
        """A library keeps the compiled kernel of the fixed launch and launches that."""
        y = torch.empty_like(x)
        kept = compiled.scaled[(4,)](x, y, N, 64)
        with observed(compiled.scaled, config) as log:
            kept[(4, 1, 1)](x, y, N, 64, 1)
        with pytest.raises(UnprovedLaunchError, match=r"scaled was launched otherwise .* 1 of 1 times"):
            log.prove()

    @pytest.mark.parametrize("metadata", ["own", "kept", "none"])
    def test_launch_cache_with_metadata_of_its_own(self, compiled: Any, x: torch.Tensor, metadata: str) -> None:
        """Only a name, or nothing, tells what was launched."""
        y = torch.empty_like(x)
        kept = compiled.scaled[(4,)](x, y, N, 64)
        made = {
            "own": LazyDict({"name": "scaled", "function": kept.function, "stream": 0}),
            "kept": kept.launch_metadata((4, 1, 1), 0, x, y, N, 64, 1),
            "none": None,
        }[metadata]
        with observed(compiled.scaled, Config(num_warps=8)) as log:
            compiled.by_tuple(compiled.scaled, x, 64)
            enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
            kept.run(4, 1, 1, 0, kept.function, kept.packed_metadata, made, enter, leave, x, y, N, 64, 1)
        with pytest.raises(UnprovedLaunchError, match=r"launched otherwise .* 1 of 2 times"):
            log.prove()

    def test_compiled_kernel_that_carries_the_options(self, compiled: Any, x: torch.Tensor) -> None:
        """Compile, ask for its registers, launch it: nothing in the grid depends on a launch option."""
        y = torch.empty_like(x)
        with observed(compiled.scaled, Config(num_warps=8)) as log:
            made = compiled.scaled.warmup(x, y, N, 64, grid=(1,))
            made[(4, 1, 1)](x, y, N, 64, 1)
        log.prove()
        assert log.launches[0].config["num_warps"] == 8

    def test_compiled_kernel_with_other_options(self, compiled: Any, x: torch.Tensor) -> None:
        """Read from what was launched."""
        y = torch.empty_like(x)
        kept = compiled.scaled[(4,)](x, y, N, 64)
        with observed(compiled.scaled, Config(num_warps=8)) as log:
            kept[(4, 1, 1)](x, y, N, 64, 1)
        with pytest.raises(UnprovedLaunchError, match="carried num_warps=4 instead of num_warps=8"):
            log.prove()

    def test_fixed_launch_may_come_from_a_cache(self, compiled: Any, x: torch.Tensor) -> None:
        """Nothing is forced, so whatever production launches is the fixed launch."""
        y = torch.empty_like(x)
        kept = compiled.scaled[(4,)](x, y, N, 64)
        with observed(compiled.scaled, None) as log:
            kept[(4, 1, 1)](x, y, N, 64, 1)
        log.prove()
        assert log.launches[0].grid == (4, 1, 1)
        own = LazyDict({"name": "scaled", "function": kept.function, "stream": 0})
        with observed(compiled.scaled, None) as log:
            enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
            kept.run(4, 1, 1, 0, kept.function, kept.packed_metadata, own, enter, leave, x, y, N, 64, 1)
        log.prove()

    def test_another_kernel_of_the_same_name(self, compiled: Any, x: torch.Tensor) -> None:
        """Launched in the ordinary way, it is not taken for this one."""
        namesake = load("compiled")
        with observed(compiled.scaled, Config(BLOCK=32)) as log:
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
            namesake.by_lambda(namesake.scaled, x, BLOCK=64)
        log.prove()
        assert len(log.launches) == 1

    def test_warps_added_by_specialisation(self, compiled: Any, x: torch.Tensor) -> None:
        """The metadata of such a kernel counts the workers too; the config asked for the others."""
        y = torch.empty_like(x)
        made = compiled.negated.warmup(x, y, N, 16, grid=(1,), num_warps=4)
        made.metadata = made.metadata._replace(num_warps=8)
        with observed(compiled.negated, Config(BLOCK=16, num_warps=4)) as log:
            compiled.by_lambda(compiled.negated, x, BLOCK=64)
        log.prove()
        assert log.launches[0].config["num_warps"] == 4
        assert log.launches[0].resources["num_warps"] == 8

    def test_launch_that_never_reaches_the_driver(
        self, compiled: Any, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The word of the driver's hook counts, not that of the call."""
        monkeypatch.setattr(Launcher, "__call__", lambda *_launch: None)
        with observed(compiled.scaled, Config(BLOCK=32)) as log:
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
        with pytest.raises(UnprovedLaunchError, match="never launched"):
            log.prove()


class TestPhases:
    """Compile and run have limits of their own."""

    def test_compiled(self, compiled: Any, x: torch.Tensor) -> None:
        """A compile is told before it begins, and only where there is one; so is making a launcher; others count."""
        phases: list[str] = []
        config = Config(BLOCK=16, SCALE=7)
        with observed(compiled.scaled, config, on_phase=phases.append):
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
            assert phases == ["compile", "run"] * 2
            compiled.by_lambda(compiled.negated, x, BLOCK=512)
        assert phases == ["compile", "run"] * 4
        again: list[str] = []
        with observed(compiled.scaled, config, on_phase=again.append):
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
        assert again == ["run"]

    def test_failed_compile(self, compiled: Any, x: torch.Tensor) -> None:
        """The last phase tells where the launch ended."""
        phases: list[str] = []
        with pytest.raises(triton.TritonError), observed(compiled.broken, Config(BLOCK=32), on_phase=phases.append):
            compiled.by_lambda(compiled.broken, x, BLOCK=64)
        assert phases == ["compile"]

    @pytest.mark.parametrize("place", ["load_binary", "launcher_cls"])
    def test_failed_load(self, compiled: Any, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        """Loading may wait for launches before it; neither that nor a launcher's failure is one of compiling."""
        phases: list[str] = []

        def fail(*_loaded: Any) -> None:
            phases.append(place)
            raise RuntimeError

        monkeypatch.setattr(FakeDriver, place, fail)
        config = Config(BLOCK=16, SCALE=11 + len(place))
        with pytest.raises(RuntimeError), observed(compiled.scaled, config, on_phase=phases.append):
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
        at = {"load_binary": ["compile", "run", place], "launcher_cls": ["compile", place, "run"]}
        assert phases == ["compile", "run", *at[place]]

    def test_interpreted(self, interpreter: Any, x: torch.Tensor) -> None:
        """There is nothing to compile."""
        phases: list[str] = []
        with observed(interpreter.scaled, Config(BLOCK=16), on_phase=phases.append):
            interpreter.by_lambda(interpreter.scaled, x, BLOCK=64)
        assert phases == ["run"]


class TestRestored:
    """Nothing stays behind."""

    @staticmethod
    def _state(kernels: Any) -> list[Any]:
        tuner = kernels.tuned_over_derived
        classes = (Autotuner, Heuristics, JITFunction, CompiledKernel, kernels.LibraryAutotuner)
        objects = (tuner, tuner.fn, kernels.tuned, kernels.derived, kernels.scaled)
        hook = knobs.runtime.launch_enter_hook
        return [
            *(
                {name: vars(cls).get(name) for name in ("run", "_do_compile", "launch_metadata", "_init_handles")}
                for cls in classes
            ),
            *(
                {name: vars(obj).get(name, "no") for name in ("run", "nargs", "best_config", "values")}
                for obj in objects
            ),
            (hook, list(hook.calls) if isinstance(hook, knobs.HookChain) else None),
        ]

    @pytest.mark.parametrize("fail", [False, True])
    def test_after_the_block(self, kernels: Any, x: torch.Tensor, fail: bool) -> None:  # noqa: FBT001 - parametrized
        """Also when blocks are nested and the launch raises."""
        before = self._state(kernels)
        inside = []

        def run() -> None:
            with observed(kernels.tuned_over_derived, Config(BLOCK=32)), observed(kernels.scaled, Config(BLOCK=16)):
                inside.append(self._state(kernels))
                kernels.by_lambda(kernels.tuned_over_derived, kernels.by_lambda(kernels.scaled, x, BLOCK=64))
                kernels.by_lambda(kernels.tuned, x)
                if fail:
                    kernels.by_tuple(kernels.scaled, x, 64)

        if fail:
            with pytest.raises(UnsupportedConfigError):
                run()
        else:
            run()
        assert inside[0] != before
        assert self._state(kernels) == before

    @pytest.mark.parametrize("placed", ["added", "replaced"])
    def test_hooks_of_the_user(
        self, compiled: Any, x: torch.Tensor, placed: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They go on working, in the chain of Triton or in its place."""
        names: list[str] = []

        def hook(metadata: Any) -> None:
            names.append(metadata.get()["name"])

        chain = knobs.HookChain()
        if placed == "added":
            chain.add(hook)
        mine = chain if placed == "added" else hook
        monkeypatch.setattr(knobs.runtime, "launch_enter_hook", mine)
        with observed(compiled.scaled, Config(num_warps=2)) as log:
            compiled.by_tuple(compiled.scaled, x, 64)
        log.prove()
        compiled.by_tuple(compiled.scaled, x, 64)
        assert names == ["scaled", "scaled"]
        assert knobs.runtime.launch_enter_hook is mine
        assert chain.calls == ([hook] if placed == "added" else [])
