"""A device process that is a GPU by its own account and times by a model: load with `-p stub_timing`.

Spec files are those of `stub_device`, with more in each spec: `keys` by case, `times` by candidate and for `fixed`,
`noise`, margins, `cache`, `untimeable` (why), and `dies` ("timing", or "raising"
where the process lives on with a broken device).
"""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import stub_device
from fake_timing import FIXED, FakeDevice, Machine
from msgspec import structs
from stub_device import StubServer

from pytest_kernelqual.model.messages import (
    Describe,
    Described,
    EnvironmentRead,
    Hello,
    InputInfo,
    Open,
    Opened,
    ReadEnvironment,
    Reply,
    Request,
    SpecInfo,
)
from pytest_kernelqual.model.record import DeviceDescriptor, Environment
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.timing import OpenTiming, Sample
from pytest_kernelqual.on_device import main as device_main
from pytest_kernelqual.processes import device_process, locks
from pytest_kernelqual.processes.device import Limits

NAME = "STUB GPU"
UUID = "GPU-stub"


def pytest_configure() -> None:
    """Have device processes run this module; their devices are no other run's, so that their locks are in TMPDIR."""
    locks._PLACES = ()
    here = str(Path(__file__).parent)
    device_process._BOOTSTRAP = (
        f"import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); sys.path.insert(0, {here!r}); "
        "import stub_timing; stub_timing.main()"
    )


def pytest_load_initial_conftests() -> None:
    """Do so before pytest-xdist asks how many devices there are."""
    pytest_configure()


def main() -> None:
    """Run the device process with the model in place of torch."""
    device_main.prepare = _prepare  # type: ignore[assignment]
    device_main.main()


def _prepare(settings: Settings, send: Callable[[Reply], None]) -> tuple["TimingServer", Hello]:
    return TimingServer(settings, send, "cuda"), stub_device.choose(settings, UUID)


def space_of(name: str) -> str:
    """Return the selection-space token of a spec of the stub."""
    return digest(name)


def digest(text: str) -> str:
    """Return a digest that committed files take."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


class TimingServer(StubServer):
    """Answer what timing asks, too."""

    _fake: FakeDevice | None = None
    _refusing = False
    _spec = ""

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        match request:
            case Describe():
                described = super().answer(request)
                assert isinstance(described, Described)
                declared = dict(zip(*stub_device._specs(request.path), strict=True))
                return structs.replace(
                    described, specs=[_with_keys(one, declared[one.name]) for one in described.specs]
                )
            case ReadEnvironment():
                uuid = os.environ.get("CUDA_VISIBLE_DEVICES") or UUID
                descriptor = DeviceDescriptor(
                    kind="cuda", name=NAME, architecture="sm_90", compute_units=132, uuid=uuid
                )
                return EnvironmentRead(environment=Environment(device=descriptor, driver="1", torch="2", triton="3"))
            case Open():
                opened = super().answer(request)
                assert isinstance(opened, Opened)
                declared = dict(zip(*stub_device._specs(request.path), strict=True))[request.spec]
                self._fake = FakeDevice(_machine(declared))
                self._refusing = declared.get("dies") == "raising"
                self._spec = request.spec
                if request.for_timing and declared.get("dies") == "timing":
                    os.abort()
                fixed = declared.get("fixed", {}).get(request.case, "qualified")
                made = InputInfo(
                    name="x", shape=(1,), dtype="int8", strides=(1,), digest=digest(f"{self._settings.seed}")
                )
                return structs.replace(opened, output=digest(request.case), inputs=[made], outcome=fixed)
            case OpenTiming() | Sample():
                assert self._fake is not None
                if "STUB_TIMED" in os.environ:
                    with Path(os.environ["STUB_TIMED"]).open("a") as file:
                        file.write(f"{self._spec} {os.environ['CUDA_VISIBLE_DEVICES']} {os.getpid()}\n")
                if self._refusing:
                    raise RuntimeError("CUDA error: an illegal memory access was encountered")
                return self._fake.ask(request, Limits(1, 1, 1))
        return super().answer(request)


def _with_keys(spec: SpecInfo, declared: dict[str, dict[str, dict[str, object]]]) -> SpecInfo:
    keys = declared.get("keys", {})
    cases = [structs.replace(case, key=keys.get(case.id, {"n": case.id})) for case in spec.cases]
    given = {
        name: declared[name] for name in ("tolerance_pct", "near_best_pct", "decay_pct", "cache") if name in declared
    }
    return structs.replace(spec, cases=cases, space=space_of(spec.name), **given)


def _machine(declared: dict[str, dict[str, float]]) -> Machine:
    times = declared.get("times", {})
    known = {f"C={name}": times.get(name, 10.0) for name in declared["candidates"]}
    told = declared.get("untimeable", "")
    noise: object = declared.get("noise", 0.003)
    return Machine({FIXED: times.get(FIXED, 10.0), **known}, refuse=str(told), noise=float(str(noise)))
