"""Hooks about committed configs: one item per spec, key and device, and one per file."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from pytest_kernelqual.committed.names import file_name
from pytest_kernelqual.committed.schema import CommittedDevice, device_order, key_text
from pytest_kernelqual.committed.store import Contents, is_looked_at, leads_back
from pytest_kernelqual.hooks.benchmark import Benchmarks
from pytest_kernelqual.hooks.committed_files import (
    CommittedFileCollector,
    CommittedFileItem,
    is_committed_file,
    judge_file,
)
from pytest_kernelqual.hooks.committed_row import KeyTarget, RowSession
from pytest_kernelqual.hooks.doubt import most_doubtful_first
from pytest_kernelqual.hooks.foretelling import foretold
from pytest_kernelqual.hooks.item_report import attach
from pytest_kernelqual.hooks.rows_elsewhere import Checked, RowsElsewhere
from pytest_kernelqual.hooks.run import Declared, Run, TargetRow
from pytest_kernelqual.model.case import id_of
from pytest_kernelqual.model.messages import CaseInfo
from pytest_kernelqual.model.record import CommittedRecord

ROW = pytest.StashKey[RowSession]()


class CommittedTests:
    """The test of a spec's committed configs."""

    def test_committed(self, kernelqual_row: Any) -> None:
        """Check the committed config of a key on a device, or measure it anew under --kernelqual-update."""
        kernelqual_row.run()


class CommittedConfigs:
    """Hooks about committed configs."""

    def __init__(self, config: pytest.Config, run: Run, benchmarks: Benchmarks) -> None:
        """Keep the run, and who takes samples; the folder is read once."""
        self._config = config
        self._benchmarks = benchmarks
        self._run = run
        self._contents: Contents | None = None
        self._items: Sequence[pytest.Item] = ()
        self._declared: dict[str, Declared] = {}
        """Specs by name, those with a problem too."""

    def has_rows(self, declared: Declared) -> bool:
        """Tell whether there is anything to check about a spec's committed configs."""
        self._declared[declared.spec.name] = declared
        return not declared.spec.problem and bool(self._devices(declared.spec.name))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each spec one item per key and device."""
        declared: Declared | None = getattr(metafunc.cls, "kernelqual_declared", None)
        if declared is None or "kernelqual_key" not in metafunc.fixturenames:
            return
        targets = list(self._targets(declared))
        names = _device_ids(targets)
        ids = [f"{id_of(target.key)}-{names[target.row.device]}" for target in targets]
        metafunc.parametrize("kernelqual_key", targets, ids=ids, indirect=True)

    def _targets(self, declared: Declared) -> Iterator[KeyTarget]:
        keys: dict[str, list[CaseInfo]] = {}
        for case in declared.spec.cases:
            if case.derived:
                continue
            keys.setdefault(key_text(case.key), []).append(case)
        for device in self._devices(declared.spec.name):
            for cases in keys.values():
                stem = self._run.store.path_for(declared.spec.name, device).stem
                yield KeyTarget(declared, cases[0].key, cases, device, TargetRow(stem, cases[0].key))

    def _devices(self, kernel: str) -> list[CommittedDevice]:
        """Return the devices of this kernel's rows: those that have a file of it, and the one that this run uses.

        A run without a device stands for all of them: a file that is missing is found as it would be on its device.
        """
        found = {file.device for file in self.contents.files.values() if file.kernel == kernel}
        here = self._run.committed_device()
        if here is None:
            found.update(self._run.store.places_without_file(kernel, self.contents).values())
        elif self._run.settings.update or self.contents.files:
            found.add(here)
        return sorted(found, key=device_order)

    @property
    def contents(self) -> Contents:
        """Return what the folder of committed configs holds."""
        if self._contents is None:
            self._contents = self._run.store.read_all()
        return self._contents

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Enter folders of kernels even where they are called `build` or `dist`, and no link that is none of them.

        What has no item by that is told in the end.
        """
        path, root = collection_path, self._run.store.root
        if path == root or not path.is_relative_to(root) or not path.is_dir():
            return None
        if leads_back(path) or (path.parent != root and path.is_symlink()):
            return True
        asked = config.getoption("ignore") or config.getoption("ignore_glob")
        avoided = any(fnmatch(path.name, pattern) for pattern in config.getini("norecursedirs"))
        return False if avoided and path.parent == root and is_looked_at(path) and not asked else None

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Collect files of the folder of committed configs; a name that cannot be printed is told in the end."""
        root = self._run.store.root
        ours = file_path.is_relative_to(root) and is_looked_at(file_path)
        if not ours or not str(file_path.relative_to(root)).isprintable():
            return None
        collector: CommittedFileCollector = CommittedFileCollector.from_parent(parent, path=file_path)
        collector.judge = self._judged
        collector.compiled = self._compiled
        return collector

    def _judged(self, path: Path) -> list[CommittedRecord]:
        specs = {name: declared.spec for name, declared in self._declared.items()}
        return judge_file(path, self.contents, specs, self._run)

    def _compiled(self, path: Path, nodeid: str) -> Checked:
        file = self.contents.files.get(path)
        return self.elsewhere.check(file, nodeid, path.stem) if file is not None else Checked()

    @cached_property
    def elsewhere(self) -> RowsElsewhere:
        """Return what compiles rows for devices that this run does not have."""
        return RowsElsewhere(self._run, self.contents, self._declared)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin to compile the rows of all files that have an item, where that disturbs nothing."""
        self._items = session.items
        paths = [item.path for item in session.items if is_committed_file(item)]
        if paths and not session.config.option.collectonly and self.elsewhere.beside:
            self.elsewhere.begin(self.contents.files[path] for path in paths if path in self.contents.files)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell what an update would do, where items are only listed."""
        if self._run.settings.update and self._config.option.collectonly and self._items:
            terminalreporter.write_line(f"\n{foretold(self._items, self._run)}")

    def pytest_sessionfinish(self) -> None:
        """End what compiles."""
        self.elsewhere.close()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Bring rows into the order in which a budget is best spent, after all selection and shuffling."""
        if self._run.settings.budget_s is not None:
            items[:] = most_doubtful_first(items, self._run)

    @pytest.fixture
    def kernelqual_key(self, request: pytest.FixtureRequest) -> Any:
        """The row under test."""
        return request.param

    @pytest.fixture
    def kernelqual_row(self, request: pytest.FixtureRequest, kernelqual_key: KeyTarget) -> RowSession:
        """What checks the row."""
        item: pytest.Item = request.node
        item.stash[ROW] = RowSession(self._run, item, kernelqual_key, partial(self._benchmarks.publish, request))
        return item.stash[ROW]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Hang the record on the report."""
        report: pytest.TestReport = yield
        session = item.stash.get(ROW, None)
        if session is not None and call.when == "call":
            attach(self._run, report, session.kernel_record(), handwritten=False)
        elif isinstance(item, CommittedFileItem) and call.when == "call":
            attach(self._run, report, item.record, handwritten=False, compiled=item.rows)
        return report


def _device_ids(targets: Sequence[KeyTarget]) -> dict[str, str]:
    """Return how node ids call devices, by file: by name, unless that is not enough to tell them apart."""
    names = {target.row.device: _device_id(target) for target in targets}
    told = Counter(names.values())
    return {stem: name if told[name] == 1 else stem for stem, name in names.items()}


def _device_id(target: KeyTarget) -> str:
    """Return how node ids call a device: by its name, unless another device has the file of that name."""
    device = target.device
    plain = file_name(device.name) == f"{target.row.device}.json"
    name = device.name if plain else f"{device.name} {device.architecture} {device.compute_units}"
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", name)
