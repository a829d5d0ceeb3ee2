"""The survey: dry runs find out what cases would launch, and all of it is compiled in parallel before any launch."""

import time
from collections.abc import Iterator, Sequence

from pytest_kernelqual.launch import Specialisation, kernel_function
from pytest_kernelqual.launch.resources import known_resources
from pytest_kernelqual.launch.targets import find_target
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CompiledNeeds, CompileFailure, Surveyed
from pytest_kernelqual.on_device.compile_worker import Ending, Job, fitted
from pytest_kernelqual.on_device.compiling import OnCompiled, compile_all
from pytest_kernelqual.on_device.failed import LaunchFailed
from pytest_kernelqual.on_device.layouts import PLAIN
from pytest_kernelqual.on_device.qualify import OpenCase

_GIB = 1 << 30


class CompileSurvey:
    """Look at cases one by one, then compile what they would launch."""

    def __init__(self, *, workers: int, memory_gib: float, target: str = "") -> None:
        """Keep how to compile, and for which target, if for one."""
        self._target = find_target(target) if target else None
        self._workers = workers
        self._memory_bytes = int(memory_gib * _GIB)
        self._began = time.time()
        self._jobs: dict[str, Job] = {}
        self._cached: dict[str, Ending] = {}
        self._launched: list[tuple[str, str, str | None, list[str]]] = []
        self._launches = 0
        self._not_surveyed: list[str] = []
        self._tainted = False
        self._fatal = False

    def look(self, case: OpenCase, candidates: Sequence[Config], limit_s: float) -> None:
        """Dry-run the fixed launch and all candidates of a case; what goes wrong is left to the launches."""
        if self._fatal:
            return
        place = f"{case.spec.name}[{case.case.id}]"
        before = {id(buffer) for buffer in case.executor.memory.survivors()}
        try:
            case.executor.build()
            for config in (None, *candidates):
                if config is None or not case.excluded(config):
                    self._look(case, config, limit_s)
        except LaunchFailed as failed:
            self._not_surveyed.append(f"{place}: {failed.reason}")
            self._fatal = failed.fatal
        except Exception as error:  # noqa: BLE001 - the launches will tell
            self._not_surveyed.append(f"{place}: {type(error).__name__}")
        if not self._fatal:
            self._tainted |= any(id(buffer) not in before for buffer in case.close())

    def _look(self, case: OpenCase, config: Config | None, limit_s: float) -> None:
        run, failed = case.executor.dry_run(config)
        if failed is not None and failed.fatal:
            raise failed
        if failed is not None and failed.outcome != "unsupported":
            id_ = "the fixed launch" if config is None else config.id
            self._not_surveyed.append(f"{case.spec.name}[{case.case.id}] {id_}: {failed.reason}")
        del failed  # its frames hold tensors
        kernel = None if case.spec.kernel is None else kernel_function(case.spec.kernel)
        own = []
        for launch in run.launches:
            self._need(launch.specialisation, limit_s)
            if launch.jit.fn is kernel:
                own.append(launch.specialisation.key)
        if case.executor.exposure == PLAIN:
            self._launched.append((case.spec.name, case.case.id, None if config is None else config.id, own))
        self._launches += len(run.launches)
        self._tainted |= run.retained() > 0

    def _need(self, specialisation: Specialisation, limit_s: float) -> None:
        key = specialisation.key
        if key in self._cached or key in self._jobs:
            return
        resources = known_resources(key) if self._target is not None else None
        if not specialisation.cached() or (self._target is not None and resources is None):
            self._jobs[key] = Job(specialisation, limit_s, self._target)
        elif self._target is not None and resources is not None:
            self._cached[key] = fitted(self._target, resources)
        else:
            self._cached[key] = Ending(compiled=True)

    def compile(self, on_compiled: OnCompiled) -> Surveyed:
        """Compile what is not cached, and return what does not compile."""
        endings = self._cached
        if self._jobs and not self._fatal:
            endings |= compile_all(
                list(self._jobs.values()),
                workers=self._workers,
                memory_bytes=self._memory_bytes,
                since=self._began,
                on_compiled=on_compiled,
            )
        compiled = sum(endings[key].compiled for key in self._jobs if key in endings)
        return Surveyed(
            failures=list(self._failures(endings)),
            launches=self._launches,
            cached=len(endings.keys() - self._jobs.keys()),
            compiled=compiled,
            failed=len(self._jobs) - compiled,
            needs=[] if self._target is None else list(self._needs(endings)),
            not_surveyed=self._not_surveyed,
            tainted=self._tainted,
            fatal=self._fatal,
        )

    def _needs(self, endings: dict[str, Ending]) -> Iterator[CompiledNeeds]:
        for spec, case, config, keys in self._launched:
            known = [endings[key].resources for key in keys if key in endings]
            names = {name for resources in known for name in resources}
            largest = {name: max(resources.get(name, 0) for resources in known) for name in sorted(names)}
            yield CompiledNeeds(spec=spec, case=case, config=config, resources=largest)

    def _failures(self, endings: dict[str, Ending]) -> Iterator[CompileFailure]:
        for spec, case, config, keys in self._launched:
            ended = (endings[key] for key in keys if key in endings)
            failed = next((ending for ending in ended if ending.outcome is not None), None)
            if failed is not None and failed.outcome is not None:
                yield CompileFailure(
                    spec=spec,
                    case=case,
                    config=config,
                    outcome=failed.outcome,
                    reason=failed.reason,
                    detail=failed.detail,
                )
