"""Options and ini values as settings; each wrong value is one clear error."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import pytest

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.model.outcome import OUTCOMES, REQUIRABLE, Evidence
from pytest_kernelqual.model.profiles import expanded, profiles_problem
from pytest_kernelqual.model.settings import MIN_REPEATS, ImportMode, Settings
from pytest_kernelqual.model.targets import distinct_targets
from pytest_kernelqual.model.values import shown

_T = TypeVar("_T")

_MAX_SEED = 2**63 - 1
_MAX_COUNT = 10_000
_MAX_PERCENT = 100.0
_MAX_GIB = 2**20
_MAX_SECONDS = 7 * 24 * 3600.0
_UNITS_S = {"ms": 0.001, "s": 1.0, "": 1.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|min|h|)")


def read_settings(config: pytest.Config, *, slot: int | None = None) -> Settings:
    """Return the settings of the run; SettingsError shows the option, the value seen and the limit."""
    import_mode = str(config.getoption("importmode"))
    if import_mode not in get_args(ImportMode):
        raise SettingsError(f"--import-mode={import_mode} is not supported; use {', '.join(get_args(ImportMode))}")
    return Settings(
        root_dir=str(config.rootpath),
        import_mode=cast("ImportMode", import_mode),
        device=_value(config, "device", _device, "auto"),
        slot=slot,
        seed=_value(config, "seed", _count(0, _MAX_SEED), 0),
        seeds=_value(config, "seeds", _count(1, _MAX_COUNT), None),
        profiles=_value(config, "profiles", _profiles, None),
        repeats=_value(config, "repeats", _count(MIN_REPEATS, _MAX_COUNT), None),
        run_timeout_s=_value(config, "run-timeout", _seconds, 60.0),
        compile_timeout_s=_value(config, "compile-timeout", _seconds, 120.0),
        compile_workers=_value(config, "compile-workers", _count(0, _MAX_COUNT), _cores(config)),
        targets=_targets(config),
        target_orders=_value(config, "target-orders", _switch, default=False),
        target_budget_s=_value(config, "target-budget", _budget_or_none, 10.0),
        compile_memory_gib=_value(config, "compile-memory", _gib, 8.0),
        start_timeout_s=_value(config, "start-timeout", _seconds, 300.0),
        fail_on=_fail_on(config),
        require_evidence=_value(config, "require-evidence", _grade, None),
        in_process=bool(config.option.kernelqual_in_process),
        committed_dir=_committed(config),
        update=bool(config.option.kernelqual_update),
        drift_fails=_value(config, "drift", _drift, default=False),
        provocation=_value(config, "provocation", _switch, default=True),
        tolerance_pct=_value(config, "tolerance", _percent, 2.0),
        budget_s=_value(config, "budget", _budget, None),
    )


def report_path(config: pytest.Config) -> Path:
    """Return where the report goes; a relative option counts from the current folder, an ini value from the root."""
    given = config.getoption("kernelqual_json")
    if given is not None:
        return Path(config.invocation_params.dir) / str(given)
    return Path(config.rootpath) / str(config.getini("kernelqual_json") or "qualified-configurations.json")


def _value(config: pytest.Config, name: str, read: Callable[[str], _T], default: _T) -> _T:
    dest = f"kernelqual_{name.replace('-', '_')}"
    for source, text in ((f"--kernelqual-{name}", config.getoption(dest)), (f"ini {dest}", config.getini(dest))):
        if text is None or (text == "" and source.startswith("ini")):  # an empty ini value is one that is not set
            continue
        try:
            return read(str(text).strip())
        except ValueError as error:
            raise SettingsError(f"{source}={shown(text)}: {error}") from None
    return default


def _committed(config: pytest.Config) -> str:
    """Return the folder of committed configs; a misspelled one must not make a run without gates."""
    given = str(config.getini("kernelqual_committed") or "")
    folder = Path(os.path.normpath(config.rootpath / given))
    told = f"ini kernelqual_committed names {shown(given)}, which"
    if given and config.rootpath.is_relative_to(folder):
        raise SettingsError(f"{told} is the root folder or holds it; name a folder of its own")
    if given and not os.path.lexists(folder) and not config.option.kernelqual_update:
        raise SettingsError(f"{told} is not there; correct it, create it, or let --kernelqual-update create it")
    return given or "committed_configs"


def _count(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return number

    return read


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= _MAX_SECONDS:
        raise ValueError(f"must be a number of seconds above 0 and at most {_MAX_SECONDS:.0f}")
    return number


def _gib(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= _MAX_GIB:
        raise ValueError(f"must be a number of GiB above 0 and at most {_MAX_GIB:g}")
    return number


def targets_left_out(config: pytest.Config) -> list[str]:
    """Return a line for each compile target that was named beside another one of its architecture."""
    return distinct_targets(_named_targets(config))[1]


def _targets(config: pytest.Config) -> tuple[str, ...]:
    """Return the compile targets as named, the first of each architecture."""
    return distinct_targets(_named_targets(config))[0]


def _named_targets(config: pytest.Config) -> list[str]:
    given: list[str] = config.getoption("kernelqual_target") or config.getini("kernelqual_target")
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


def _cores(config: pytest.Config) -> int:
    """Return this process's share of the cores that the run may use."""
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    return max(len(os.sched_getaffinity(0)) // workers, 1)


def _percent(text: str) -> float:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 < number <= _MAX_PERCENT:
        raise ValueError(f"must be a number of percent above 0 and at most {_MAX_PERCENT:g}")
    return number


def _drift(text: str) -> bool:
    if text not in ("warn", "fail"):
        raise ValueError("must be warn or fail")
    return text == "fail"


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("must be on or off")
    return text == "on"


def _budget_or_none(text: str) -> float:
    return 0.0 if text == "0" else _budget(text)


def _budget(text: str) -> float:
    found = _TIME.fullmatch(text)
    number = float(found[1]) * _UNITS_S[found[2]] if found else -1.0
    if not 0 < number <= _MAX_SECONDS:
        most = f"{_MAX_SECONDS / 3600:g}h"
        raise ValueError(f"must be a time such as 500ms, 60s, 5min or 2h, above 0 and at most {most}")
    return number


def _device(text: str) -> str:
    kind, colon, index = text.partition(":")
    indexed = kind in {"cuda", "hip"} and (not colon or index.isdecimal())
    if not indexed and text not in {"auto", "interpreter"}:
        raise ValueError("unknown device; use auto, cuda, cuda:N, hip, hip:N or interpreter")
    return text


def _profiles(text: str) -> tuple[str, ...]:
    names = tuple(text.replace(",", " ").split())
    problem = profiles_problem(names, of_spec=False) if names else "names no profile; use none for no further ones"
    if problem:
        raise ValueError(problem)
    return expanded(names)


def _grade(text: str) -> Evidence:
    if text not in REQUIRABLE:
        raise ValueError(f"is no evidence that can be required; use {', '.join(REQUIRABLE)}")
    return text


def _fail_on(config: pytest.Config) -> tuple[str, ...]:
    named: list[Any] = config.getini("kernelqual_fail_on")
    unknown = [name for name in named if name not in OUTCOMES or name == "qualified"]
    if unknown:
        raise SettingsError(f"ini kernelqual_fail_on names {unknown[0]!r}; outcomes: {', '.join(OUTCOMES[1:])}")
    return tuple(named)
