"""Forcing a config onto launches, interpreted and compiled (under a driver that launches nothing)."""

import threading
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
from launch_parts import N, ran
from triton.runtime.jit import KernelInterface

from pytest_kernelqual.errors import DeclarationError, UnprovedLaunchError, UnsupportedConfigError
from pytest_kernelqual.launch import check_config, describe_kernel, interpreted, is_kernel, observed
from pytest_kernelqual.model.config import Config

pytest_plugins = ["launch_fixtures"]


class TestDescribe:
    """What a kernel is."""

    def test_plain_kernel(self, kernels: Any) -> None:
        """Only declared constexprs are parameters, whatever has a default."""
        info = describe_kernel(kernels.scaled)
        assert (info.name, info.parameters, info.arguments) == ("scaled", ("BLOCK", "SCALE"), ("x", "y", "n"))
        assert (info.derived, info.configs) == ((), ())
        assert {"num_warps", "num_stages", "num_ctas", "maxnreg", "waves_per_eu", "enable_fp_fusion"} <= (
            info.launch_options
        )

    @pytest.mark.parametrize("name", ["tuned", "tuned_over_derived", "derived_over_tuned", "library_tuned"])
    def test_autotuned_kernel_lists_its_configs(self, kernels: Any, name: str) -> None:
        """Both stacking orders and subclasses."""
        info = describe_kernel(getattr(kernels, name))
        assert info.configs == (
            Config(BLOCK=64, num_warps=2, num_stages=1),
            Config(BLOCK=128, num_warps=4, num_stages=2),
        )
        assert info.derived == (("EVEN",) if "derived" in name else ())

    def test_options_away_from_their_defaults_are_listed(self, kernels: Any) -> None:
        """`num_ctas` and `maxnreg` only where set; a config listed twice counts once."""
        own = [triton.Config({"BLOCK": 64}, maxnreg=96, num_ctas=2)] * 2
        info = describe_kernel(triton.autotune(configs=own, key=[])(kernels.negated))
        assert info.configs == (Config(BLOCK=64, num_warps=4, num_stages=3, num_ctas=2, maxnreg=96),)

    def test_config_that_no_candidate_can_hold(self, kernels: Any) -> None:
        """The value and its type are shown."""
        tuned = triton.autotune(configs=[triton.Config({"BLOCK": (64, 32)})], key=[])(kernels.negated)
        with pytest.raises(DeclarationError, match=r"config 0 .* negated .*BLOCK=\(64, 32\) is a tuple"):
            describe_kernel(tuned)

    @pytest.mark.parametrize("thing", ["scaled", None, print, Config()])
    def test_not_a_kernel(self, thing: object) -> None:
        """The type is shown, and what to give instead."""
        assert not is_kernel(thing)
        with pytest.raises(DeclarationError, match=r"is a .*, not a Triton kernel; give the @triton.jit"):
            describe_kernel(thing)

    def test_wrapper_without_a_kernel_inside(self) -> None:
        """A chain of wrappers that leads nowhere is not a kernel either."""
        wrapper = KernelInterface()
        assert not is_kernel(wrapper)
        wrapper.fn = wrapper
        assert not is_kernel(wrapper)

    def test_modes_are_told_apart(self, loaded: dict[str, ModuleType]) -> None:
        """At every level of wrapping."""
        for name in ("scaled", "derived", "tuned", "library_tuned", "derived_over_tuned"):
            assert is_kernel(getattr(loaded["compiled"], name))
            assert interpreted(getattr(loaded["interpreted"], name))
            assert not interpreted(getattr(loaded["compiled"], name))


class TestCheckConfig:
    """Which configs a kernel can take."""

    @pytest.mark.parametrize(
        ("config", "problem"),
        [
            (Config(num_warp=4), "'num_warp'; did you mean 'num_warps'?"),
            (Config(BLOK=4), "'BLOK'; did you mean 'BLOCK'?"),
            (Config(qqq=1), "'qqq'; constexpr parameters: BLOCK, SCALE"),
            (Config(n=4), "'n' is a runtime argument of kernel scaled, not a constexpr"),
            (Config(num_warps="4"), "num_warps='4' is a str; use a whole number"),
            (Config(num_stages=True), "num_stages=True is a bool; use a whole number"),
        ],
    )
    def test_wrong(self, kernels: Any, config: Config, problem: str) -> None:
        """Each in one line."""
        found = check_config(describe_kernel(kernels.scaled), config)
        assert found is not None
        assert problem in found

    @pytest.mark.parametrize(
        "config", [Config(), Config(BLOCK=64, num_warps=3), Config(maxnreg=None), Config(SCALE=2, waves_per_eu=1)]
    )
    def test_right(self, kernels: Any, config: Config) -> None:
        """What only the compiler can judge is left to it."""
        assert check_config(describe_kernel(kernels.scaled), config) is None


class TestForcedLaunch:
    """A plain kernel takes the config, however production launches it."""

    def test_grid_lambda(self, kernels: Any, x: torch.Tensor) -> None:
        """A callable grid sees the forced value."""
        with observed(kernels.scaled, Config(BLOCK=32, num_warps=2)) as log:
            y = kernels.by_lambda(kernels.scaled, x, BLOCK=64, num_warps=8)
        log.prove()
        (launch,) = log.launches
        assert launch.grid == (7,)
        assert launch.config["BLOCK"] == 32
        assert launch.config["num_warps"] == 2
        assert launch.config["SCALE"] == 1
        assert ran(kernels, x, y)

    @pytest.mark.parametrize("positional", [True, False])
    def test_constexpr_by_position_or_keyword(self, kernels: Any, x: torch.Tensor, positional: bool) -> None:  # noqa: FBT001 - parametrized
        """The value is replaced where production put it."""
        with observed(kernels.scaled, Config(SCALE=3)) as log:
            if positional:
                kernels.by_tuple(kernels.scaled, x, 64, 3)
            else:
                kernels.by_tuple(kernels.scaled, x, BLOCK=64, SCALE=3)
        log.prove()
        assert log.launches[0].config["SCALE"] == 3

    def test_value_left_at_its_default(self, kernels: Any, x: torch.Tensor) -> None:
        """A parameter that production does not mention is forced too."""
        with observed(kernels.scaled, Config(SCALE=5), grid_independent=("SCALE",)) as log:
            y = kernels.by_tuple(kernels.scaled, x, 64)
        log.prove()
        assert log.launches[0].config["SCALE"] == 5
        assert ran(kernels, 5 * x, y)

    def test_several_launches_and_another_kernel(self, kernels: Any, x: torch.Tensor) -> None:
        """Every launch of the kernel is forced and logged, none of the other."""
        with observed(kernels.negated, None) as other, observed(kernels.scaled, Config(BLOCK=32)) as log:
            y = kernels.by_lambda(kernels.scaled, x, BLOCK=64)
            z = kernels.by_lambda(kernels.negated, y, BLOCK=64)
            kernels.by_lambda(kernels.scaled, z, BLOCK=128)
        log.prove()
        other.prove()
        assert [launch.config["BLOCK"] for launch in log.launches] == [32, 32]
        assert [launch.config["BLOCK"] for launch in other.launches] == [64]
        assert ran(kernels, -x, z)

    def test_launch_from_another_thread(self, kernels: Any, x: torch.Tensor) -> None:
        """Backward kernels are launched by a thread of autograd."""
        with observed(kernels.scaled, Config(BLOCK=32)) as log:
            thread = threading.Thread(target=kernels.by_lambda, args=(kernels.scaled, x), kwargs={"BLOCK": 64})
            thread.start()
            thread.join()
        log.prove()
        assert log.launches[0].config["BLOCK"] == 32

    def test_gluon(self, compiled: Any, x: torch.Tensor) -> None:
        """A Gluon kernel is compiled and forced like another."""
        with observed(compiled.gluon_copy, Config(BLOCK=64, WARPS=2, num_warps=2)) as log:
            compiled.by_lambda(compiled.gluon_copy, x, BLOCK=128, WARPS=4)
        log.prove()
        assert log.launches[0].config == {"BLOCK": 64, "WARPS": 2, "num_warps": 2, "num_stages": 3}

    def test_fixed_launch_is_left_alone(self, kernels: Any, x: torch.Tensor) -> None:
        """Nothing is forced; what production passed is logged."""
        with observed(kernels.scaled, None) as log:
            kernels.by_tuple(kernels.scaled, x, 64, num_warps=8)
        log.prove()
        assert log.launches[0].config["BLOCK"] == 64
        assert log.launches[0].config["num_warps"] == 8
        assert "num_ctas" not in log.launches[0].config

    def test_warmup_is_not_a_launch(self, kernels: Any) -> None:
        """Compiling alone proves nothing."""
        with observed(kernels.scaled, Config(BLOCK=32)) as log:
            kernels.scaled.warmup(torch.float32, torch.float32, N, BLOCK=64, grid=(1,))
        assert log.launches == []
        with pytest.raises(UnprovedLaunchError, match=r"the kernel scaled was never launched, only compiled"):
            log.prove()

    @pytest.mark.parametrize("config", [None, Config(BLOCK=32)])
    def test_never_launched(self, kernels: Any, x: torch.Tensor, config: Config | None) -> None:
        """For the fixed launch too."""
        with observed(kernels.scaled, config) as log:
            kernels.by_lambda(kernels.negated, x, BLOCK=64)
        with pytest.raises(UnprovedLaunchError, match="the kernel scaled was never launched;"):
            log.prove()

    def test_interpreter_takes_launch_options_of_every_backend(self, interpreter: Any, x: torch.Tensor) -> None:
        """They change nothing there, and are logged as asked for."""
        config = Config(BLOCK=32, num_warps=16, num_stages=5, num_ctas=2, maxnreg=64, waves_per_eu=2)
        with observed(interpreter.scaled, config) as log:
            y = interpreter.by_lambda(interpreter.scaled, x, BLOCK=64)
        log.prove()
        assert log.launches[0].config == {**config, "SCALE": 1}
        assert log.launches[0].resources == {}
        assert torch.equal(x, y)

    def test_compiled_launch_tells_its_resources(self, compiled: Any, x: torch.Tensor) -> None:
        """Read from the compiled kernel."""
        with observed(compiled.scaled, Config(num_warps=8, num_stages=2, maxnreg=64)) as log:
            compiled.by_tuple(compiled.scaled, x, 64)
        log.prove()
        assert log.launches[0].resources == {"shared_bytes": 0, "num_warps": 8, "registers": 32, "spills": 0}
        assert log.launches[0].config == {"BLOCK": 64, "SCALE": 1, "num_warps": 8, "num_stages": 2, "maxnreg": 64}

    def test_unset_option_is_not_passed_on(self, compiled: Any, x: torch.Tensor) -> None:
        """`maxnreg=None` takes away what production sets."""
        with observed(compiled.scaled, Config(maxnreg=None)) as log:
            compiled.by_tuple(compiled.scaled, x, 64, maxnreg=128)
        log.prove()
        assert log.launches[0].config["maxnreg"] is None
        with observed(compiled.scaled, Config(waves_per_eu=None)) as log:
            compiled.by_tuple(compiled.scaled, x, 64)
        log.prove()


class TestTupleGrid:
    """A tuple grid was computed for production's own block size."""

    def test_changed_parameter_is_unsupported(self, kernels: Any, x: torch.Tensor) -> None:
        """The grid, both values and the remedies are shown, and nothing is launched."""
        with (
            pytest.raises(UnsupportedConfigError, match=r"grid does not follow BLOCK: .*\(4,\) for BLOCK=64.*BLOCK=32"),
            observed(kernels.scaled, Config(BLOCK=32)) as log,
        ):
            kernels.by_tuple(kernels.scaled, x, 64)
        assert log.launches == []

    def test_true_is_not_one(self, kernels: Any, x: torch.Tensor) -> None:
        """They are compiled as different constants."""
        with (
            pytest.raises(UnsupportedConfigError, match="for SCALE=1, the config says SCALE=True"),
            observed(kernels.scaled, Config(SCALE=True)),
        ):
            kernels.by_tuple(kernels.scaled, x, 64)

    def test_refusal_that_the_launch_swallows(self, kernels: Any, x: torch.Tensor) -> None:
        """A launch that falls back on an error does not hide it."""
        with observed(kernels.scaled, Config(BLOCK=32)) as log:
            try:
                kernels.by_tuple(kernels.scaled, x, 64)
            except Exception:  # noqa: BLE001 - what careless libraries do
                kernels.by_lambda(kernels.scaled, x, BLOCK=64)
        with pytest.raises(UnsupportedConfigError, match="grid does not follow BLOCK"):
            log.prove()

    def test_launch_options_and_equal_values_are_supported(self, kernels: Any, x: torch.Tensor) -> None:
        """Neither changes what the grid was computed for."""
        with observed(kernels.scaled, Config(BLOCK=64, num_warps=2)) as log:
            y = kernels.by_tuple(kernels.scaled, x, BLOCK=64)
        log.prove()
        assert log.launches[0].grid == (4,)
        assert ran(kernels, x, y)

    def test_grid_of_the_spec(self, kernels: Any, x: torch.Tensor) -> None:
        """It replaces a tuple computed for another value, and sees plain arguments."""
        follow = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731 - as specs write it
        with observed(kernels.scaled, Config(BLOCK=32), grid=follow) as log:
            y = kernels.by_tuple(kernels.scaled, x, 64)
        log.prove()
        assert log.launches[0].grid == (7,)
        assert ran(kernels, x, y)

    def test_independent_parameter(self, kernels: Any, x: torch.Tensor) -> None:
        """The grid stays as it is."""
        with observed(kernels.scaled, Config(BLOCK=128), grid_independent=("BLOCK",)) as log:
            y = kernels.by_tuple(kernels.scaled, x, 64)
        log.prove()
        assert log.launches[0].grid == (4,)
        assert ran(kernels, x, y)

    def test_callable_grid_over_runtime_arguments(self, kernels: Any, x: torch.Tensor) -> None:
        """It is evaluated on plain values under the interpreter too."""
        y = torch.empty_like(x)
        with observed(kernels.scaled, Config(BLOCK=32)) as log:
            kernels.scaled[lambda meta: [triton.cdiv(meta["n"], meta["BLOCK"])]](x, y, N, BLOCK=64)
        log.prove()
        assert log.launches[0].grid == (7,)
        assert ran(kernels, x, y)
