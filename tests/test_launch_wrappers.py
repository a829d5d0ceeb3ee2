"""Forcing through heuristics and autotuners."""

from typing import Any

import pytest
import torch
import triton
from launch_parts import ran
from triton.runtime.errors import AutotunerError

from pytest_kernelqual.errors import UnsupportedConfigError
from pytest_kernelqual.launch import describe_kernel, observed
from pytest_kernelqual.model.config import Config

pytest_plugins = ["launch_fixtures"]


class TestHeuristics:
    """Derived parameters follow forced ones."""

    @pytest.mark.parametrize(("block", "even"), [(32, False), (8, True)])
    def test_derived_is_computed_again(self, kernels: Any, x: torch.Tensor, block: int, even: bool) -> None:  # noqa: FBT001 - parametrized
        """From the forced value, not from production's."""
        with observed(kernels.derived, Config(BLOCK=block)) as log:
            y = kernels.by_lambda(kernels.derived, x, BLOCK=64)
        log.prove()
        assert log.launches[0].config["EVEN"] is even
        assert ran(kernels, x, y)

    def test_derived_itself_can_be_forced(self, kernels: Any, x: torch.Tensor) -> None:
        """The grid lambda sees the forced value."""
        with observed(kernels.block_derived, Config(BLOCK=64)) as log:
            kernels.by_lambda(kernels.block_derived, x)
        log.prove()
        assert (log.launches[0].config["BLOCK"], log.launches[0].grid) == (64, (4,))

    def test_tuple_grid_is_held_against_the_derived_value(self, kernels: Any, x: torch.Tensor) -> None:
        """Equal to what the heuristics say is the launch of production."""
        with observed(kernels.block_derived, Config(BLOCK=256)) as log:
            kernels.by_tuple(kernels.block_derived, x, block=256)
        log.prove()
        with (
            pytest.raises(UnsupportedConfigError, match="for BLOCK=256, the config says BLOCK=64"),
            observed(kernels.block_derived, Config(BLOCK=64)),
        ):
            kernels.by_tuple(kernels.block_derived, x, block=256)

    def test_inner_function_as_the_kernel(self, kernels: Any, x: torch.Tensor) -> None:
        """Which level a spec names does not matter."""
        with observed(kernels.derived.fn, Config(BLOCK=8)) as log:
            kernels.by_lambda(kernels.derived, x, BLOCK=64)
        log.prove()
        assert log.launches[0].config["EVEN"] is True


class TestAutotune:
    """As in the steady state of production."""

    @pytest.mark.parametrize("name", ["tuned", "tuned_over_derived", "derived_over_tuned", "library_tuned"])
    @pytest.mark.parametrize("index", [0, 1])
    def test_own_config(self, kernels: Any, x: torch.Tensor, name: str, index: int) -> None:
        """Both stacking orders and a subclass with its own `run`; nothing is benchmarked."""
        kernel = getattr(kernels, name)
        config = describe_kernel(kernel).configs[index]
        with observed(kernel, config) as log:
            y = kernels.by_lambda(kernel, x)
        log.prove()
        assert config.items() <= log.launches[0].config.items()
        assert ran(kernels, x, y)

    @pytest.mark.parametrize(("fixed", "block", "warps"), [(None, 64, 2), (Config(BLOCK=128), 128, 4)])
    def test_fixed_launch(self, kernels: Any, x: torch.Tensor, fixed: Config | None, block: int, warps: int) -> None:
        """The first config, or the one that `fixed` names in part."""
        with observed(kernels.tuned, None, fixed=fixed) as log:
            kernels.by_lambda(kernels.tuned, x)
        log.prove()
        assert log.launches[0].config == {"BLOCK": block, "num_warps": warps, "num_stages": warps // 2}

    def test_explicit_candidate_changes_the_fixed_config(self, kernels: Any, x: torch.Tensor) -> None:
        """What it does not name stays."""
        with observed(kernels.tuned, Config(num_warps=1), fixed=Config(BLOCK=128)) as log:
            kernels.by_lambda(kernels.tuned, x)
        log.prove()
        assert log.launches[0].config == {"BLOCK": 128, "num_warps": 1, "num_stages": 2}

    def test_tuple_grid_cannot_depend_on_a_tuned_parameter(self, kernels: Any, x: torch.Tensor) -> None:
        """Production launches all of its own configs with that grid."""
        with observed(kernels.tuned, Config(BLOCK=128, num_warps=4, num_stages=2)) as log:
            kernels.by_tuple(kernels.tuned, x)
        log.prove()
        assert log.launches[0].grid == (4,)

        tuned = triton.autotune(configs=[triton.Config({"BLOCK": 64, "SCALE": scale}) for scale in (2, 3)], key=[])(
            kernels.scaled
        )
        with observed(tuned, Config(SCALE=3)) as log:
            kernels.by_tuple(tuned, x)
        log.prove()
        assert log.launches[0].config["SCALE"] == 3

    def test_parameter_beside_the_tuned_ones(self, kernels: Any, x: torch.Tensor) -> None:
        """What production passes itself is replaced where it stands, and the grid is held against it."""
        tuned = triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=[])(
            kernels.scaled
        )
        with observed(tuned, Config(BLOCK=32, SCALE=3)) as log:
            y = kernels.by_lambda(tuned, x, SCALE=2)
            kernels.by_lambda(tuned, x)
        log.prove()
        assert [launch.config["SCALE"] for launch in log.launches] == [3, 3]
        assert ran(kernels, 3 * x, y)
        with (
            pytest.raises(UnsupportedConfigError, match="for SCALE=1, the config says SCALE=3"),
            observed(tuned, Config(SCALE=3)),
        ):
            kernels.by_tuple(tuned, x)

    @pytest.mark.parametrize("config", [Config(BLOCK=128, num_warps=4, num_stages=2), Config(BLOCK=16, num_warps=1)])
    def test_hooks(self, kernels: Any, x: torch.Tensor, config: Config) -> None:
        """`Config.pre_hook` runs with the forced value, an explicit candidate inherits it; `reset_to_zero` does not."""
        kernels.hooked_blocks.clear()
        with observed(kernels.hooked, config) as log:
            kernels.by_lambda(kernels.hooked, x)
        log.prove()
        assert kernels.hooked_blocks == [config["BLOCK"]]
        assert x[1] == 1

    def test_each_config_has_its_own_hook(self, kernels: Any, x: torch.Tensor) -> None:
        """A candidate that amounts to an own config takes the hook of that one, heuristics between or not."""
        called: list[int] = []
        configs = [
            triton.Config({"BLOCK": block}, pre_hook=lambda _arguments, block=block: called.append(block))
            for block in (64, 128)
        ]
        with observed(triton.autotune(configs=configs, key=[])(kernels.derived), Config(BLOCK=128)) as log:
            kernels.by_lambda(triton.autotune(configs=configs, key=[])(kernels.derived), x)
        log.prove()
        assert called == [128]

    def test_hook_of_an_autotuner_around_the_named_kernel(self, kernels: Any, x: torch.Tensor) -> None:
        """A hook builds descriptors from BLOCK: it must see the forced one also when the inner function is named."""
        kernels.hooked_blocks.clear()
        with observed(kernels.hooked.fn, Config(BLOCK=16)) as log:
            kernels.by_lambda(kernels.hooked, x)
        log.prove()
        assert kernels.hooked_blocks == [16]

    @pytest.mark.parametrize("config", [Config(BLOCK=128, num_warps=4, num_stages=2), Config(BLOCK=512)])
    def test_pruned_config_is_unsupported(self, kernels: Any, config: Config) -> None:
        """Its own and an explicit one; for other arguments it is fine."""
        message = f"early_config_prune of _plain drops BLOCK={config['BLOCK']},"
        with pytest.raises(UnsupportedConfigError, match=message), observed(kernels.pruned, config):
            kernels.by_lambda(kernels.pruned, torch.ones(100))
        with observed(kernels.pruned, config) as log:
            kernels.by_lambda(kernels.pruned, torch.ones(512))
        log.prove()

    def test_single_config_is_never_pruned(self, kernels: Any, x: torch.Tensor) -> None:
        """As Triton does where there is no choice."""
        kernel = triton.autotune(
            configs=[triton.Config({"BLOCK": 64})],
            key=[],
            prune_configs_by={"early_config_prune": lambda *_arguments, **_options: []},
        )(kernels.negated)
        with observed(kernel, Config(BLOCK=64)) as log:
            kernels.by_lambda(kernel, x)
        log.prove()

    def test_nothing_left_by_pruning(self, kernels: Any, x: torch.Tensor) -> None:
        """The fixed launch ends as in production."""
        message = "early_config_prune of _plain left no config"
        with pytest.raises(AutotunerError, match=message), observed(kernels.pruned, None):
            kernels.by_lambda(kernels.pruned, x[:10])

    def test_fixed_config_is_pruned_too(self, kernels: Any) -> None:
        """Named, it is unsupported; not named, it is the first that is kept, which candidates in part change."""
        with (
            pytest.raises(UnsupportedConfigError, match="drops BLOCK=128"),
            observed(kernels.pruned, None, fixed=Config(BLOCK=128)),
        ):
            kernels.by_lambda(kernels.pruned, torch.ones(100))
        kernel = triton.autotune(
            configs=list(reversed(kernels.pruned.configs)),
            key=["n"],
            prune_configs_by={"early_config_prune": kernels.pruned.early_config_prune},
        )(kernels.pruned.fn)
        for config in (None, Config(num_warps=1)):
            with observed(kernel, config) as log:
                kernels.by_lambda(kernel, torch.ones(100))
            log.prove()
            assert log.launches[0].config["BLOCK"] == 64

    def test_prune_that_writes_into_the_configs(self, kernels: Any, x: torch.Tensor) -> None:
        """A clamped config is ruled out, and the autotuner's own stay as they are."""

        def clamp(configs: list[Any], _arguments: dict[str, Any], **_options: Any) -> list[Any]:
            for config in configs:
                config.kwargs["BLOCK"] = min(config.kwargs["BLOCK"], 64)
            return configs

        configs = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]
        kernel = triton.autotune(configs=configs, key=["n"], prune_configs_by={"early_config_prune": clamp})(
            kernels.negated
        )
        with pytest.raises(UnsupportedConfigError, match="drops BLOCK=128"), observed(kernel, Config(BLOCK=128)):
            kernels.by_lambda(kernel, x)
        assert [config.kwargs["BLOCK"] for config in configs] == [64, 128]

    @pytest.mark.parametrize("name", ["tuned", "library_tuned"])
    def test_other_autotuned_kernel_is_pinned(self, kernels: Any, x: torch.Tensor, name: str) -> None:
        """To its first config, subclasses included."""
        other = getattr(kernels, name)
        seen = {}
        with observed(kernels.scaled, Config(BLOCK=32)) as log:
            y = kernels.by_lambda(other, kernels.by_lambda(kernels.scaled, x, BLOCK=64))
            seen = dict(other.best_config.kwargs)
        log.prove()
        assert seen == {"BLOCK": 64}
        assert len(log.launches) == 1
        assert ran(kernels, x, y)

    def test_other_autotuned_kernel_whose_first_config_does_not_compile(self, compiled: Any, x: torch.Tensor) -> None:
        """Production would not settle on it either; the refused compile is not tried again."""
        configs = [triton.Config({"BLOCK": block}) for block in (256, 128, 32)]
        other = triton.autotune(configs=configs, key=["n"])(compiled.limited)
        attempts: list[str] = []
        with observed(compiled.negated, None, on_phase=attempts.append):
            compiled.by_lambda(other, x)
            assert other.best_config is configs[2]
            first = len(attempts)
            compiled.by_lambda(other, x)
        assert attempts[0] == "compile"
        assert len(attempts) == first

    def test_best_config_is_what_is_forced(self, kernels: Any, x: torch.Tensor) -> None:
        """Host code may read it; after the block it is as before."""
        config = describe_kernel(kernels.tuned).configs[1]
        with observed(kernels.tuned, config):
            kernels.by_lambda(kernels.tuned, x)
            assert kernels.tuned.best_config is kernels.tuned.configs[1]
        assert not hasattr(kernels.tuned, "best_config")
