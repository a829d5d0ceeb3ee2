"""Forcing a config onto launches, interpreted and compiled (under a driver that launches nothing)."""

import importlib.util
import itertools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import CompiledKernel, LazyDict
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.driver import driver
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from pytest_kernelqual.errors import DeclarationError, UnprovedLaunchError, UnsupportedConfigError
from pytest_kernelqual.launch import check_config, classify, describe_kernel, interpreted, is_kernel, observed
from pytest_kernelqual.model.config import Config

N = 200


class _Launcher:
    """Call the hooks as the drivers' own launchers do, and launch nothing."""

    def __init__(self, _src: Any, metadata: Any) -> None:
        self.metadata = metadata

    def __call__(self, *launch: Any) -> None:
        _x, _y, _z, _stream, _function, _packed, metadata, enter, leave, *_args = launch
        if enter is not None:
            enter(metadata)
        if leave is not None:
            leave(metadata)


class _FakeDriver:
    """A CUDA device that is not there."""

    launcher_cls = _Launcher

    def __init__(self) -> None:
        self.utils = self
        self.handles = itertools.count(1)

    def load_binary(self, *_binary: Any) -> tuple[int, int, int, int, int]:
        handle = next(self.handles)
        return handle, handle, 32, 0, 1024

    def unload_module(self, _module: int) -> None:
        """Forget nothing: nothing was loaded."""

    def get_device_properties(self, _device: int = 0) -> dict[str, int]:
        return {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32}

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int = 0) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def is_active(self) -> bool:
        return True


def _load(mode: str) -> ModuleType:
    name = f"launch_kernels_{mode}"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("launch_kernels.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with knobs.runtime.scope():
        knobs.runtime.interpret = mode == "interpreted"
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    """Load the kernels both ways."""
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path_factory.mktemp("triton"))
        yield {mode: _load(mode) for mode in ("interpreted", "compiled")}


@pytest.fixture
def fake_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a driver in place that launches nothing; `reset_active` would ask for a real one."""
    monkeypatch.setattr(driver, "_active", _FakeDriver())


@pytest.fixture(params=["interpreted", "compiled"])
def kernels(request: pytest.FixtureRequest, loaded: dict[str, ModuleType]) -> Any:
    """Give the kernels in one of the two ways; the interpreter has no driver."""
    if request.param == "compiled":
        request.getfixturevalue("fake_driver")
    return loaded[request.param]


@pytest.fixture
def compiled(loaded: dict[str, ModuleType], fake_driver: None) -> Any:  # noqa: ARG001 - used by its presence
    """Give the compiled kernels."""
    return loaded["compiled"]


@pytest.fixture
def interpreter(loaded: dict[str, ModuleType]) -> Any:
    """Give the interpreted kernels."""
    return loaded["interpreted"]


@pytest.fixture
def x() -> torch.Tensor:
    """Give an input whose last tile is partly empty."""
    return torch.arange(N, dtype=torch.float32)


def _ran(kernels: Any, x: torch.Tensor, y: torch.Tensor) -> bool:
    """Tell whether the output is right, where anything ran at all."""
    return kernels.__name__.endswith("compiled") or torch.equal(x, y)


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
        assert _ran(kernels, x, y)

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
        assert _ran(kernels, 5 * x, y)

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
        assert _ran(kernels, -x, z)

    def test_launch_from_another_thread(self, kernels: Any, x: torch.Tensor) -> None:
        """Backward kernels are launched by a thread of autograd."""
        with observed(kernels.scaled, Config(BLOCK=32)) as log:
            thread = threading.Thread(target=kernels.by_lambda, args=(kernels.scaled, x), kwargs={"BLOCK": 64})
            thread.start()
            thread.join()
        log.prove()
        assert log.launches[0].config["BLOCK"] == 32

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
        assert _ran(kernels, x, y)

    def test_grid_of_the_spec(self, kernels: Any, x: torch.Tensor) -> None:
        """It replaces a tuple computed for another value, and sees plain arguments."""
        follow = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731 - as specs write it
        with observed(kernels.scaled, Config(BLOCK=32), grid=follow) as log:
            y = kernels.by_tuple(kernels.scaled, x, 64)
        log.prove()
        assert log.launches[0].grid == (7,)
        assert _ran(kernels, x, y)

    def test_independent_parameter(self, kernels: Any, x: torch.Tensor) -> None:
        """The grid stays as it is."""
        with observed(kernels.scaled, Config(BLOCK=128), grid_independent=("BLOCK",)) as log:
            y = kernels.by_tuple(kernels.scaled, x, 64)
        log.prove()
        assert log.launches[0].grid == (4,)
        assert _ran(kernels, x, y)

    def test_callable_grid_over_runtime_arguments(self, kernels: Any, x: torch.Tensor) -> None:
        """It is evaluated on plain values under the interpreter too."""
        y = torch.empty_like(x)
        with observed(kernels.scaled, Config(BLOCK=32)) as log:
            kernels.scaled[lambda meta: [triton.cdiv(meta["n"], meta["BLOCK"])]](x, y, N, BLOCK=64)
        log.prove()
        assert log.launches[0].grid == (7,)
        assert _ran(kernels, x, y)


class TestHeuristics:
    """Derived parameters follow forced ones."""

    @pytest.mark.parametrize(("block", "even"), [(32, False), (8, True)])
    def test_derived_is_computed_again(self, kernels: Any, x: torch.Tensor, block: int, even: bool) -> None:  # noqa: FBT001 - parametrized
        """From the forced value, not from production's."""
        with observed(kernels.derived, Config(BLOCK=block)) as log:
            y = kernels.by_lambda(kernels.derived, x, BLOCK=64)
        log.prove()
        assert log.launches[0].config["EVEN"] is even
        assert _ran(kernels, x, y)

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
        assert _ran(kernels, x, y)

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
        assert _ran(kernels, 3 * x, y)
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

    def test_fixed_config_is_pruned_too(self, kernels: Any) -> None:
        """Named, it is unsupported; not named, the first that is kept."""
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
        with observed(kernel, None) as log:
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
        assert _ran(kernels, x, y)

    def test_best_config_is_what_is_forced(self, kernels: Any, x: torch.Tensor) -> None:
        """Host code may read it; after the block it is as before."""
        config = describe_kernel(kernels.tuned).configs[1]
        with observed(kernels.tuned, config):
            kernels.by_lambda(kernels.tuned, x)
            assert kernels.tuned.best_config is kernels.tuned.configs[1]
        assert not hasattr(kernels.tuned, "best_config")


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

    def test_launch_that_never_reaches_the_driver(
        self, compiled: Any, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The word of the driver's hook counts, not that of the call."""
        monkeypatch.setattr(_Launcher, "__call__", lambda *_launch: None)
        with observed(compiled.scaled, Config(BLOCK=32)) as log:
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
        with pytest.raises(UnprovedLaunchError, match="never launched"):
            log.prove()


class TestPhases:
    """Compile and run have limits of their own."""

    def test_compiled(self, compiled: Any, x: torch.Tensor) -> None:
        """A compile is told before it begins, and only where there is one; other kernels count."""
        phases: list[str] = []
        config = Config(BLOCK=16, SCALE=7)
        with observed(compiled.scaled, config, on_phase=phases.append):
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
            compiled.by_lambda(compiled.scaled, x, BLOCK=64)
            assert phases == ["compile", "run"]
            compiled.by_lambda(compiled.negated, x, BLOCK=512)
        assert phases == ["compile", "run", "compile", "run"]
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
            *({name: vars(cls).get(name) for name in ("run", "_do_compile", "launch_metadata")} for cls in classes),
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


def _raised(call: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at it
        call()
    return caught.value


class TestClassify:
    """Exceptions become outcomes with one line of reason."""

    @pytest.mark.parametrize(
        ("error", "outcome", "reason"),
        [
            (RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"), "fault", "illegal memory"),
            (RuntimeError("CUDA error: unspecified launch failure"), "fault", "unspecified launch failure"),
            (torch.AcceleratorError("CUDA error: misaligned address"), "fault", "misaligned"),
            (torch.AcceleratorError("CUDA error: something new\nCompile with"), "fault", "something new"),
            (torch.AcceleratorError("CUDA error: out of memory"), "not_run", "out of memory: our own"),
            (RuntimeError("Triton Error [CUDA]: invalid argument"), "launch_error", "invalid argument"),
            (RuntimeError("Triton Error [HIP]: Code: 1, Messsage: x"), "launch_error", "Triton Error [HIP]"),
            (RuntimeError("0 active drivers ([]). There should only be one."), "not_run", "no GPU driver"),
            (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "not_run", "out of memory: our own"),
            (MemoryError(), "not_run", "out of memory: our own (MemoryError)"),
            (AssertionError("num_warps must be a power of 2"), "compile_error", "power of 2"),
            (UnsupportedConfigError("grid does not follow BLOCK"), "unsupported", "grid does not follow BLOCK"),
            (
                KeyError("Keyword argument kpack was specified but unrecognised"),
                "unsupported",
                "this device's compiler has no launch option 'kpack'",
            ),
        ],
    )
    def test_by_type_and_message(self, error: BaseException, outcome: str, reason: str) -> None:
        """In any phase."""
        found = classify(error, "run")
        assert found is not None
        assert found[0] == outcome
        assert reason in found[1]
        assert found[2]["error"] == type(error).__name__

    @pytest.mark.parametrize("kind", ["shared memory", "tensor memory", "threads"])
    def test_out_of_resources(self, kind: str) -> None:
        """Kind, need and limit are told."""
        detail = {"error": "OutOfResources", "kind": kind, "required": 655360, "limit": 232448}
        found = classify(OutOfResources(655360, 232448, kind), "run")
        assert found == ("out_of_resources", f"{kind}: required 655360, limit 232448", detail)

    def test_registers(self) -> None:
        """Read from what ptxas says."""
        error = PTXASError(
            "Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal   : (C7602) Insufficient registers (64) "
            "to compile instruction at line 1433 in function mm. Try to compile with register target of 90 or higher.\n"
            "ptxas fatal   : Ptx assembly aborted due to errors\n\nRepro command: ptxas -v x.ptx\n"
        )
        detail = {"error": "PTXASError", "kind": "registers", "required": 90, "limit": 64}
        assert classify(error, "compile") == ("out_of_resources", "registers: required 90, limit 64", detail)

    def test_other_ptxas_failure(self) -> None:
        """The line of ptxas, not the command or the whole file."""
        error = PTXASError(
            "Internal\n`ptxas` stderr:\nptxas x.ptx, line 3; error   : Unknown symbol\nRepro command: a\n"
        )
        found = classify(error, "compile")
        assert found is not None
        assert found[:2] == ("compile_error", "PTXASError: ptxas x.ptx, line 3; error : Unknown symbol")

    def test_unknown(self) -> None:
        """An error of the launch's own is for the caller to name; while compiling it is the compiler's."""
        assert classify(ValueError("shapes"), "run") is None
        assert classify(ValueError("shapes"), None) is None
        assert classify(KeyboardInterrupt(), "compile") is None
        assert classify(RuntimeError("PassManager::run failed\nmodule {}"), "compile") == (
            "compile_error",
            "RuntimeError: PassManager::run failed",
            {"error": "RuntimeError"},
        )

    def test_what_the_launch_wraps(self) -> None:
        """The cause counts; the reason stays one line of bounded length."""
        error = RuntimeError("my op failed")
        error.__cause__ = OutOfResources(2048, 1024, "threads")
        found = classify(error, "run")
        assert found is not None
        assert found[0] == "out_of_resources"
        found = classify(RuntimeError("Triton Error [CUDA]: " + "x" * 5000), "run")
        assert found is not None
        assert len(found[1]) <= 300

    def test_static_assert(self, kernels: Any, x: torch.Tensor) -> None:
        """A config that the kernel itself rules out ends alike in both ways."""
        with observed(kernels.limited, Config(BLOCK=128)):
            error = _raised(lambda: kernels.by_lambda(kernels.limited, x, BLOCK=64))
        found = classify(error, "run")
        assert found is not None
        assert found[0] == "compile_error"
        assert "BLOCK is too large" in found[1]
        assert "\n" not in found[1]

    def test_kernel_body(self, kernels: Any, x: torch.Tensor) -> None:
        """What the compiler rejects, and what the interpreter meets while running."""
        error = _raised(lambda: kernels.by_lambda(kernels.broken, x, BLOCK=64))
        found = classify(error, "run")
        assert found is not None
        assert found[0] == ("compile_error" if kernels.__name__.endswith("compiled") else "launch_error")
        assert "\n" not in found[1]

    def test_warps_that_the_compiler_refuses(self, compiled: Any, x: torch.Tensor) -> None:
        """As the compiler words it today."""
        with observed(compiled.scaled, Config(num_warps=3)):
            error = _raised(lambda: compiled.by_tuple(compiled.scaled, x, 64))
        found = classify(error, "run")
        assert found is not None
        assert found[0] == "compile_error"

    def test_option_of_another_backend(self, compiled: Any, x: torch.Tensor) -> None:
        """As Triton words it today."""
        with observed(compiled.scaled, Config(waves_per_eu=2)):
            error = _raised(lambda: compiled.by_tuple(compiled.scaled, x, 64))
        found = classify(error, "run")
        assert found is not None
        assert found[:2] == ("unsupported", "this device's compiler has no launch option 'waves_per_eu'")
