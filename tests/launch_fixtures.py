"""Fixtures of the launch tests: kernels loaded both ways."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from launch_parts import FakeDriver, N, load
from triton import knobs
from triton.runtime.driver import driver


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    """Load the kernels both ways."""
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path_factory.mktemp("triton"))
        yield {mode: load(mode) for mode in ("interpreted", "compiled")}


@pytest.fixture
def fake_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a driver in place that launches nothing; `reset_active` would ask for a real one."""
    monkeypatch.setattr(driver, "_active", FakeDriver())


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
