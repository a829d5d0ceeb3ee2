"""What one pytest process of a run holds: settings, its device, what it described, its journal."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

from pytest_kernelqual.committed.schema import CommittedDevice
from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.errors import DeviceProcessError, DocumentError, KernelqualError
from pytest_kernelqual.hooks.spec_files import import_root
from pytest_kernelqual.model.messages import CaseInfo, Describe, Described, EnvironmentRead, ReadEnvironment, SpecInfo
from pytest_kernelqual.model.record import CandidateRecord, DeviceDescriptor, Environment, FixedRecord
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.compile_farm import CompileFarm
from pytest_kernelqual.processes.compile_targets import CompileTargets
from pytest_kernelqual.processes.device import Device, Limits
from pytest_kernelqual.processes.device_process import DeviceProcess
from pytest_kernelqual.processes.in_process import InProcessDevice
from pytest_kernelqual.processes.locks import DeviceLock
from pytest_kernelqual.report.finished_cases import FinishedCases
from pytest_kernelqual.report.journal import Journal
from pytest_kernelqual.report.plan import Plan


class Declared(Struct, frozen=True):
    """One declared spec, and where it stands."""

    path: str
    spec: SpecInfo
    position: int
    """Among the specs of its file."""


class TargetRow(Struct, frozen=True):
    """One row of a committed file."""

    device: str
    """File name of the device, without its suffix."""
    key: dict[str, Any]


class Target(Struct, frozen=True):
    """What one item qualifies."""

    declared: Declared
    case: CaseInfo | None
    row: TargetRow | None = None
    """Set where the item is about a committed config; `case` is then the one that is timed."""


class Run:
    """Hold the state of this process; everything heavy is made when first needed."""

    def __init__(
        self, settings: Settings, report: Path, *, worker: str, default_paths: bool, journals: bool = True
    ) -> None:
        """Keep the settings, the path of the report, the name of this process among workers, and what it covers.

        Without `journals` it only looks, as for --collect-only.
        """
        self.settings = settings
        self.report = report
        self.worker = worker
        self.default_paths = default_paths
        self._journals = journals
        self.started_at = datetime.now(UTC)
        self.timing_s = 0.0
        """Seconds that this process has spent on timing committed configs, waiting for the device included."""
        self.timed_before: dict[str, str] = {}
        """When rows were last timed, by node id, as far as the last report tells; known under a budget only."""
        self.plan: Plan | None = None
        self._device: Device | None = None
        self._import_path: list[str] = []
        self._described: dict[str, Described] = {}
        self._journal: Journal | None = None
        self._environment: Environment | None = None
        self._unreadable = False
        self._lock: DeviceLock | None = None
        self._confirming: list[Device] = []
        self._farm: CompileFarm | None = None
        self._targets: CompileTargets | None = None
        self._candidates: dict[tuple[str, str, str, str], CandidateRecord] = {}
        self._fixed: dict[tuple[str, str, str], FixedRecord] = {}
        self._finished = FinishedCases(self.journal_folder)

    @property
    def store(self) -> Store:
        """Return the folder of committed configs."""
        return Store(Path(os.path.normpath(Path(self.settings.root_dir) / self.settings.committed_dir)))

    @property
    def lock(self) -> DeviceLock:
        """Return the lock of the device that this process uses."""
        environment = self.environment()
        if environment is None:  # asked again for the next item: what could not be told yet is no device to share
            return DeviceLock("")
        if self._lock is None:
            self._lock = DeviceLock(environment.device.uuid)
        return self._lock

    @property
    def farm(self) -> CompileFarm:
        """Return what compiles before cases are launched."""
        if self._farm is None:
            self._farm = CompileFarm(self.device, self.settings)
        return self._farm

    @property
    def targets(self) -> CompileTargets:
        """Return what compiles for devices that are not there."""
        if self._targets is None:
            self._targets = CompileTargets(self.settings)
        return self._targets

    @property
    def confirming(self) -> list[Device]:
        """Return two more processes on the same device, in which suspects of the whole run are timed again."""
        if not self._confirming:
            known = self.known_environment
            settings = structs.replace(self.settings, device_uuid=known.device.uuid if known is not None else "")
            self._confirming = [DeviceProcess(settings), DeviceProcess(settings)]
        return self._confirming

    def committed_device(self) -> CommittedDevice | None:
        """Return how committed files name the device of this run; None where kernels are interpreted."""
        if self.device.hello().kind == "interpreter":
            return None
        environment = self.environment()
        return committed_device(environment.device) if environment is not None else None

    def remember(self, declared: Declared, case: CaseInfo, record: CandidateRecord) -> None:
        """Keep a candidate's record for items of this process about the committed config."""
        self._candidates[declared.path, declared.spec.name, case.id, record.id] = record

    def remember_fixed(self, declared: Declared, case: CaseInfo, record: FixedRecord) -> None:
        """Keep the fixed launch's record."""
        self._fixed[declared.path, declared.spec.name, case.id] = record

    def known_candidate(self, declared: Declared, case: CaseInfo, id_: str) -> CandidateRecord | None:
        """Return what this process found of a candidate, or None."""
        return self._candidates.get((declared.path, declared.spec.name, case.id, id_))

    def known_fixed(self, declared: Declared, case: CaseInfo) -> FixedRecord | None:
        """Return what this process found of the fixed launch, or None."""
        return self._fixed.get((declared.path, declared.spec.name, case.id))

    def learn(self, declared: Declared, case: CaseInfo, nodeid: str) -> None:
        """Remember what another worker of this run has found of a case, by the node id of its item."""
        found = self._finished.find(nodeid) if self.settings.slot is not None else None
        if found is not None:
            self.remember_fixed(declared, case, found.fixed)
            for record in found.candidates:
                self.remember(declared, case, record)

    @property
    def journal_folder(self) -> Path:
        """Name the session folder, next to the report."""
        return self.report.with_name(f"{self.report.name}.journal")

    @property
    def journal(self) -> Journal:
        """Open this process's journal; where it cannot be opened the run goes on and `journal_problem` tells why."""
        if self._journal is None:
            try:
                self._journal = Journal(self.journal_folder, self.worker)
            except DocumentError as error:
                self._journal = Journal.lost(self.journal_folder, str(error))
        return self._journal

    @property
    def journal_problem(self) -> str:
        """Say what went wrong with the journal so far."""
        return self._journal.problem if self._journal is not None else ""

    @property
    def known_environment(self) -> Environment | None:
        """Return where this run happens as far as the device was asked already."""
        return self._environment

    @property
    def device(self) -> Device:
        """Return the device, not yet started."""
        if self._device is None:
            self._import_path = [*sys.path]
            in_process = self.settings.in_process
            self._device = InProcessDevice(self.settings) if in_process else DeviceProcess(self.settings)
        return self._device

    def describe(self, path: Path) -> Described:
        """Return what a spec file declares; a file that takes the device process down is described as a problem."""
        key = str(path)
        if key not in self._described:
            described = self._describe(key)
            if described.problem and self._device is not None and self._import_path != sys.path:
                # A conftest.py collected meanwhile may have told where the file's imports are.
                self._device.close()
                self._import_path = [*sys.path]
                described = self._describe(key)
            if described.problem and self.settings.targets:
                # What needs a GPU to be imported can be compiled for one; its cases tell what the problem is here.
                described = self.targets.described(key) or described
            self._described[key] = described
            self._take_import_root(path)
        return self._described[key]

    def _take_import_root(self, path: Path) -> None:
        """Put the file's folder on this process's import path too, as pytest does for a file that it imports.

        Files below may import from it, and a device process that is started again must find the same modules.
        """
        root, mode = str(import_root(path)), self.settings.import_mode
        if self.settings.in_process or mode == "importlib":
            return
        if mode == "prepend" and sys.path[:1] != [root]:
            sys.path.insert(0, root)
            self._import_path.insert(0, root)
        elif root not in sys.path:
            sys.path.append(root)
            self._import_path.append(root)

    def _describe(self, path: str) -> Described:
        limits = Limits(self.settings.start_timeout_s, 0, 0)
        try:
            reply = self.device.ask(Describe(path=path), limits)
        except DeviceProcessError as death:
            log = f"\n{death.log}" if death.log else ""
            return Described(module="", problem=f"importing {path} ended the device process: {death.cause}{log}")
        except KernelqualError as error:
            return Described(module="", problem=f"cannot describe {path}: {error}")
        if not isinstance(reply, Described):
            return Described(module="", problem=f"Describe was answered by {type(reply).__name__}: a fault of the tool")
        return reply

    @property
    def lost_device(self) -> bool:
        """Tell whether this process has no device that answers, so that whatever it runs fails."""
        return (self._unreadable and self._environment is None) or (self._device is not None and self._device.lost)

    @property
    def unreadable_specs(self) -> bool:
        """Tell whether a spec file could not be described, so that its specs are not known."""
        return any(described.problem for described in self._described.values())

    def restart(self) -> None:
        """End every device process; each starts again when it is asked."""
        for device in (self._device, *self._confirming):
            if device is not None:
                device.close()
        if self._targets is not None:
            self._targets.close()

    def environment(self) -> Environment | None:
        """Return where this run happens, asking the device once; None when it cannot tell."""
        if self._environment is None:
            try:
                reply = self.device.ask(ReadEnvironment(), Limits(self.settings.start_timeout_s, 0, 0))
            except KernelqualError:  # then no item of the run can pass either
                self._unreadable = True
                return None
            if isinstance(reply, EnvironmentRead):
                stamp = self.started_at.isoformat(timespec="seconds")
                self._environment = structs.replace(reply.environment, started_at=stamp)
                if self._journals:
                    self.journal.environment(self._environment)
        return self._environment

    def close(self) -> None:
        """End the device and close the journal."""
        self.restart()
        if self._journal is not None:
            self._journal.close()


def committed_device(descriptor: DeviceDescriptor) -> CommittedDevice:
    """Return how committed files name a device."""
    return CommittedDevice(
        vendor="nvidia" if descriptor.kind == "cuda" else "amd",
        name=descriptor.name,
        architecture=descriptor.architecture,
        compute_units=descriptor.compute_units,
    )


def controls_workers(config: pytest.Config) -> bool:
    """Tell whether pytest-xdist's workers run the items, and this process none."""
    return config.pluginmanager.hasplugin("dsession")


RUN = pytest.StashKey[Run]()
TARGET = pytest.StashKey[Target]()
