"""Which device a process takes, by the rules of torch itself, on a machine that has four by its own account."""

import os

import pytest
import torch
from msgspec import structs

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.on_device import environment

SETTINGS = Settings(root_dir=".", device="cuda")
UUIDS = [f"GPU-{number}{number}" for number in range(4)]
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "TRITON_INTERPRET")


@pytest.fixture(autouse=True)
def four_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch's own code count four devices; the runtime, once it was asked, tells what was visible then."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_raw_device_count_nvml", lambda: 4)
    monkeypatch.setattr(torch.cuda, "_raw_device_uuid_nvml", lambda: UUIDS)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 1, raising=False)


def chosen(visible: str | None, **changes: object) -> str | None:
    """Return what is visible after a process has chosen."""
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    device = environment.choose(structs.replace(SETTINGS, **changes))
    assert (device.kind, device.torch_device) == ("cuda", torch.device("cuda", 0))
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("visible", "slots"),
    [
        (None, ["0", "1", "2", "3", "0"]),
        ("2,0", ["2", "0", "2"]),
        ("3", ["3", "3"]),
        (f"{UUIDS[3]},{UUIDS[1]}", [UUIDS[3], UUIDS[1], UUIDS[3]]),
        ("1, 7, 2", ["1", "1"]),
        ("1,-1,2", ["1", "1"]),
        ("MIG-a,MIG-b", ["MIG-a", "MIG-b", "MIG-a"]),
    ],
)
def test_workers_share_visible_devices(visible: str | None, slots: list[str]) -> None:
    """By their places, in turn; what follows a name that is no device is not visible, as for CUDA."""
    for slot, expected in enumerate(slots):
        if visible is None:
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        assert chosen(visible, slot=slot) == expected


@pytest.mark.parametrize("visible", [None, "2,0"])
def test_serial_run_hides_nothing(visible: str | None) -> None:
    """Production may use several devices; the first is the one that is checked."""
    assert chosen(visible) == visible


@pytest.mark.parametrize("slot", [None, 0, 3])
def test_index_counts_visible_devices(slot: int | None) -> None:
    """As torch counts them; a worker's place does not matter then."""
    assert chosen("3,2", device="cuda:1", slot=slot) == "2"


@pytest.mark.parametrize(("visible", "count"), [("3,2", 2), (None, 4)])
def test_index_of_no_device_is_refused(visible: str | None, count: int) -> None:
    """With how many there are."""
    with pytest.raises(SettingsError, match=f"'cuda:4' was asked for and there are {count}: use an index below"):
        chosen(visible, device="cuda:4")


@pytest.mark.parametrize("slot", [None, 1])
@pytest.mark.parametrize("visible", ["", "-1", "7"])
def test_nothing_visible_is_no_gpu(visible: str, slot: int | None) -> None:
    """Then `cuda` is an error, and never the first device of all."""
    with pytest.raises(SettingsError, match=r"'cuda' was asked for and torch .* sees no GPU"):
        chosen(visible, slot=slot)


def test_device_shown_by_the_owner_is_taken_as_it_is() -> None:
    """The owner has counted before: neither index nor place is applied twice."""
    assert chosen("2", visible_device="2", device="cuda:1", slot=3) == "2"


def test_a_device_that_went_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the one that moved up nor by the interpreter."""
    settings = structs.replace(SETTINGS, device="auto", slot=1, device_uuid="11")
    device = environment.choose(settings)
    before = environment._descriptor(environment.Device("interpreter", torch.device("cpu")))
    for found, fine in (("11", True), ("22", False)):
        monkeypatch.setattr(
            environment, "_descriptor", lambda _device, found=found: structs.replace(before, uuid=found)
        )
        if fine:
            environment.check_same(device, settings)
        else:
            with pytest.raises(SettingsError, match=r"device 11 that this process used is gone.*there is device 22"):
                environment.check_same(device, settings)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with pytest.raises(SettingsError, match=r"device 11 that this process used is gone.*there is no GPU"):
        environment.choose(settings)


@pytest.fixture
def rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a ROCm build whose devices only the runtime can count, once and for all."""
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "_device_count_amdsmi", lambda: -1)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 4)


@pytest.mark.usefixtures("rocm")
@pytest.mark.parametrize(
    ("given", "variable", "expected"),
    [
        ({}, "HIP_VISIBLE_DEVICES", "1"),
        ({"HIP_VISIBLE_DEVICES": "7,6,5,4"}, "HIP_VISIBLE_DEVICES", "6"),
        ({"CUDA_VISIBLE_DEVICES": "7,6,5,4"}, "CUDA_VISIBLE_DEVICES", "6"),
        ({"HIP_VISIBLE_DEVICES": "3,2,1,0", "CUDA_VISIBLE_DEVICES": "7"}, "HIP_VISIBLE_DEVICES", "2"),
        ({"ROCR_VISIBLE_DEVICES": "4,5,6,7"}, "HIP_VISIBLE_DEVICES", "1"),
    ],
)
def test_amd_devices_are_hidden_by_the_variable_that_counts(
    given: dict[str, str], variable: str, expected: str
) -> None:
    """And the owner is told to show the device, where the runtime had looked before."""
    os.environ.update(given)
    devices = environment.visible_devices()
    assert environment.choose(structs.replace(SETTINGS, device="hip", slot=1)).kind == "hip"
    assert os.environ[variable] == expected
    assert environment.show_from_outside(devices) == expected


def test_nothing_is_shown_from_outside_where_hiding_worked() -> None:
    """NVML counts without initialising CUDA."""
    devices = environment.visible_devices()
    environment.choose(structs.replace(SETTINGS, slot=2))
    assert environment.show_from_outside(devices) == ""
