"""What `--kernelqual` adds to pytest; nothing here loads without it."""

from typing import Any

import pytest

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.hooks.benchmark import Benchmarks
from pytest_kernelqual.hooks.collection import Collection
from pytest_kernelqual.hooks.committed import CommittedConfigs
from pytest_kernelqual.hooks.distribution import Distribution
from pytest_kernelqual.hooks.fixtures import Fixtures
from pytest_kernelqual.hooks.options import read_settings, report_path
from pytest_kernelqual.hooks.results import Results
from pytest_kernelqual.hooks.run import RUN, Run
from pytest_kernelqual.report.document import check_writable

# Options under which pytest would pass over every launch and report success.
_HOLLOW = {
    "benchmark_only": "--benchmark-only would skip every qualification item",
    "setupplan": "--setup-plan would launch nothing",  # implies --setup-only
    "setuponly": "--setup-only would launch nothing",
}


def register(config: pytest.Config, *, default_paths: bool) -> None:
    """Check the options and register the plugin's parts; a wrong option is a usage error before anything runs."""
    for option, what in _HOLLOW.items():
        if getattr(config.option, option, False):
            raise pytest.UsageError(f"{what}; leave it out under --kernelqual")
    # Doctests are no qualification items, and collecting them would import kernels into this process.
    config.option.doctestmodules = False
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    try:
        settings = read_settings(config, slot=(workerinput or {}).get("kernelqual_slot"))
        path = report_path(config)
        if workerinput is None and not config.option.collectonly:
            check_writable(path)
    except KernelqualError as error:
        raise pytest.UsageError(f"--kernelqual: {error}") from None
    run = Run(
        settings,
        path,
        worker=(workerinput or {}).get("workerid", "main"),
        default_paths=default_paths or (workerinput or {}).get("kernelqual_default_paths", False),
        journals=not config.option.collectonly,
    )
    config.stash[RUN] = run
    manager = config.pluginmanager
    benchmarks = Benchmarks(config, run)
    manager.register(benchmarks, "kernelqual-benchmark")
    committed = CommittedConfigs(config, run, benchmarks)
    manager.register(committed, "kernelqual-committed")
    manager.register(Collection(config, run, committed), "kernelqual-collection")
    manager.register(Fixtures(config, run), "kernelqual-fixtures")
    if workerinput is None:
        manager.register(Results(config, run), "kernelqual-results")
        manager.register(Distribution(config, run), "kernelqual-distribution")
