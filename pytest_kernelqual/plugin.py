"""The entry point of the pytest plugin: options, ini values, the marker; all else loads under --kernelqual."""

from pathlib import Path
from typing import Any

import pytest

from pytest_kernelqual.hooks import specifications
from pytest_kernelqual.hooks.spec_files import is_spec_file, named_spec_files

_OFF = "kernelqual-off"
_COMMITTED = "committed_configs"
_DEFAULT_WANTED = ["kernels", _COMMITTED]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, each with an ini twin where a project would set it once."""
    group = parser.getgroup("kernelqual", "qualification of GPU kernel configs")
    group.addoption(
        "--kernelqual",
        action="store_true",
        help="qualify candidate configs: collect only specs and tests marked kernelqual",
    )
    for name, metavar, text in _VALUES:
        group.addoption(f"--kernelqual-{name}", metavar=metavar, default=None, help=f"{text} (ini: {_ini(name)})")
        parser.addini(_ini(name), help=text, default=None)
    group.addoption(
        "--kernelqual-target",
        metavar="NAME",
        action="append",
        default=None,
        help=f"{_TARGET}; may be repeated (ini: kernelqual_target)",
    )
    parser.addini("kernelqual_target", type="linelist", default=[], help=_TARGET)
    group.addoption(
        "--kernelqual-update",
        action="store_true",
        help="measure committed configs anew and write those that are faster; needs a device",
    )
    group.addoption(
        "--kernelqual-in-process",
        action="store_true",
        help="run interpreted kernels inside the pytest process, for --pdb and breakpoints",
    )
    parser.addini(
        "kernelqual_paths",
        type="args",
        default=list(_DEFAULT_WANTED),
        help="paths that --kernelqual takes when none is given",
    )
    parser.addini("kernelqual_committed", help="folder of committed configs; default committed_configs", default=None)
    parser.addini("kernelqual_files", type="args", default=["qual_*.py"], help="names of files that hold specs")
    parser.addini(
        "kernelqual_fail_on",
        type="args",
        default=[],
        help="outcomes of candidates that fail beyond those that always do, for example out_of_resources",
    )


_TARGET = "compile every launch for a device that is not there, cuda:90 or hip:gfx942 or 'NVIDIA H200', by comma"

_VALUES = (
    ("device", "NAME", "auto, cuda, cuda:N, hip, hip:N or interpreter; default auto"),
    ("seed", "N", "seed of every input; default 0"),
    ("seeds", "N", "input sets of normal values of each case; default 1"),
    (
        "profiles",
        "NAMES",
        "profiles of further input sets, all or none; default cancelling,mixed on a GPU",
    ),
    ("repeats", "N", "launches of each candidate on each input set; default 4 on a GPU, 2 under the interpreter"),
    ("json", "PATH", "where to write the report; default qualified-configurations.json in the root folder"),
    ("run-timeout", "SECONDS", "limit of one launch; default 60"),
    ("compile-timeout", "SECONDS", "limit of compiling one candidate; default 120"),
    (
        "compile-workers",
        "N",
        "processes that compile before launches, 0 for none; default one a core, shared by xdist's workers",
    ),
    ("compile-memory", "GIB", "how much memory one compilation may take there; default 8"),
    ("tolerance", "PERCENT", "how much slower than the fixed launch a committed config may be; default 2"),
    (
        "require-evidence",
        "GRADE",
        "weakest evidence with which a candidate passes: identical_bytes, identical_order or identical_binary",
    ),
    ("budget", "TIME", "how long committed configs may be timed, for example 60s; default no limit"),
    (
        "target-orders",
        "SWITCH",
        "on or off: compare arithmetic orders on compile targets too, a second compilation of each code; default off",
    ),
    (
        "target-budget",
        "TIME",
        "how long a run waits for committed configs to be compiled for GPUs that are not there; 0: never; default 10s",
    ),
    (
        "drift",
        "ACTION",
        "warn or fail where the fixed launch gives other bytes than when a row was committed; default warn",
    ),
    (
        "provocation",
        "SWITCH",
        "on or off (NVIDIA GPUs): dirty shared memory and registers, run some launches beside noise; default on",
    ),
    (
        "start-timeout",
        "SECONDS",
        "limit of starting the device process, of importing a file, of building inputs; default 300",
    ),
)


def _ini(name: str) -> str:
    return f"kernelqual_{name.replace('-', '_')}"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Put the default paths in front, and let pytest rewrite assertions in spec files."""
    known: Any = early_config.known_args_namespace
    if not known.kernelqual or known.help or known.version:
        return
    if not known.file_or_dir:
        root = early_config.rootpath
        wanted = early_config.getini("kernelqual_paths")
        missing = [path for path in wanted if not (root / path).exists() and path != _COMMITTED]
        # Both default paths may be absent, and one that the ini file names must be there.
        if missing and wanted != _DEFAULT_WANTED:
            raise pytest.UsageError(
                f"--kernelqual: ini kernelqual_paths names {missing[0]!r}, which is not in {root}; correct it"
            )
        paths = [str(root / path) for path in wanted if (root / path).exists()]
        if not paths:
            raise pytest.UsageError(
                f"--kernelqual: none of kernelqual_paths ({' '.join(wanted)}) exists in {root}; "
                "give a path or set the ini value (or write options with '=', as in --kernelqual-json=PATH: "
                "pytest takes a path that stands alone for where the root folder is)"
            )
        args[:0] = paths
        known.file_or_dir.extend(paths)
        early_config.stash[_DEFAULT_PATHS] = True
    early_config.getini("python_files").extend(early_config.getini("kernelqual_files"))


# Set when the run covers the default paths, so that nothing was narrowed by a path.
_DEFAULT_PATHS = pytest.StashKey[bool]()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that users may implement."""
    pluginmanager.add_hookspecs(specifications)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Make `-n auto` one worker for each GPU; None leaves it to pytest-xdist, or to a project's own hook."""
    if not config.option.kernelqual:
        return None
    from pytest_kernelqual.hooks.device_check import auto_workers  # noqa: PLC0415 - as below

    return auto_workers(config)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and under --kernelqual the rest of the plugin."""
    config.addinivalue_line(
        "markers",
        'kernelqual(spec): qualify a spec, given as the object or as "path::name", in a test run under --kernelqual',
    )
    if config.option.kernelqual:
        from pytest_kernelqual.hooks.registration import register  # noqa: PLC0415 - nothing of it loads without the option

        register(config, default_paths=config.stash.get(_DEFAULT_PATHS, False))
    else:
        config.pluginmanager.register(_Off(config), _OFF)


class _Off:
    """Keep qualification out of an ordinary run, and say so where it was named."""

    def __init__(self, config: pytest.Config) -> None:
        self._patterns: list[str] = config.getini("kernelqual_files")
        self._left_out = 0

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Collect nothing from a spec file, which would import its kernels into this process."""
        if not is_spec_file(module_path, self._patterns):
            return None
        module: pytest.Module = _SpecFileOff.from_parent(parent, path=module_path)
        return module

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Any:
        """Leave out what else would import a spec file as a module: --doctest-modules."""
        collected: list[Any] = yield
        if not is_spec_file(file_path, self._patterns):
            return collected
        return [node for node in collected if not isinstance(node, pytest.Module) or isinstance(node, _SpecFileOff)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out tests marked kernelqual: their fixtures exist under --kernelqual only."""
        marked = [item for item in items if item.get_closest_marker("kernelqual")]
        if marked:
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if not item.get_closest_marker("kernelqual")]
            self._left_out = len(marked)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Have no word to say where other tests run."""
        if session.items:
            self._left_out = 0

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Tell who named a spec file, or only tests marked kernelqual, why nothing ran."""
        named = named_spec_files(config.args, self._patterns)
        if named:
            terminalreporter.write_line(
                f"kernelqual: {', '.join(named)} declares kernels to qualify; add --kernelqual to run it"
            )
        if self._left_out:
            terminalreporter.write_line(
                f"kernelqual: {self._left_out} tests marked kernelqual were left out; add --kernelqual to run them"
            )


class _SpecFileOff(pytest.Module):
    """A spec file in a run without --kernelqual."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """Return nothing."""
        return []
