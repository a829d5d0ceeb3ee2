"""The environment of a run that several processes tell of, each with a device of its own."""

from collections.abc import Sequence

from msgspec import structs

from pytest_kernelqual.model.record import Environment

OF_KIND = ("kind", "name", "architecture", "compute_units")
_OF_ONE = {"memory_bytes": 0, "uuid": ""}
"""What devices of one kind may differ in, and what stands for several."""
_ELSEWHERE = "; elsewhere "


def together(told: Sequence[Environment]) -> Environment | None:
    """Return the first environment with all devices, less what they differ in; None where nothing was told."""
    if not told:
        return None
    devices = [environment.device for environment in told]
    differing = {name: blank for name, blank in _OF_ONE.items() if len({getattr(one, name) for one in devices}) > 1}
    uuids = {uuid for environment in told for uuid in (*environment.devices, environment.device.uuid) if uuid}
    checks = {part for one in told for part in one.disturbance_checks.split(_ELSEWHERE) if part}
    return structs.replace(
        told[0],
        device=structs.replace(devices[0], **differing),
        devices=sorted(uuids),
        disturbance_checks=_ELSEWHERE.join(sorted(checks)),
    )


def other_kinds(told: Sequence[Environment]) -> str:
    """Say which devices of one run are of different kinds, so that one report cannot stand for both."""
    for environment in told[1:]:
        one, other = told[0].device, environment.device
        if any(getattr(one, name) != getattr(other, name) for name in OF_KIND):
            return (
                f"workers use devices of different kinds: {one.name} ({one.uuid or one.kind}) and "
                f"{other.name} ({other.uuid or other.kind}); show the run devices of one kind by CUDA_VISIBLE_DEVICES "
                "or HIP_VISIBLE_DEVICES"
            )
    return ""
