"""Names of committed files: they never meet, and never leave their folder."""

from pathlib import Path

from committed_samples import H200
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from pytest_kernelqual.committed.names import file_name, full_file_name
from pytest_kernelqual.committed.store import Store

NASTY = [
    "NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA_H200", "nvidia h200", "nvidia_h200", "NVIDIA  H200", "NVIDIA H200 ",
    " NVIDIA H200", "NVIDIA H200 MIG 1g.18gb", "NVIDIA H200 MIG 2g.35gb", "NVIDIA A100-SXM4-80GB", "NVIDIA/H200",
    "NVIDIA\\H200", "AMD Instinct MI300X", "", ".", "..", "../..", "/", "/etc/passwd", "~", "-rf", "CON", "con",
    "NUL.JSON", "COM1", "LPT9.X", "a\0b", "a\nb", "a:b", "a*b?", "ä", "a\u0308", "Ä", "ß", "SS", "ss", "\u0131", "I",
    "i", "İ", "ﬁ", "fi", "\u202eabc", "\ud800", "😀", ".hidden", ".lock", "x" * 300, "x" * 301, "X" * 100, "X" * 101,
    "rms_norm+0123456789ab", "rms_norm", "_rms_norm", "RMS_norm", "readme.md", "X.MD", "H200.JSON", "H200.", "%20",
    "NVIDIA%20H200", "NVIDIA   H200",
]  # fmt: skip

any_name = st.sampled_from(NASTY) | st.text(max_size=12) | st.text("aAbB _+.-/", max_size=6)


def place(kernel: str, device: str) -> Path:
    """Return the file of a kernel and of a device of which no other one has the name."""
    return Store(Path("root")).path_for(kernel, structs.replace(H200, name=device))


@settings(deadline=None)
@given(any_name, any_name, any_name, any_name)
@example("k", "NVIDIA H200", "k", "NVIDIA H200 NVL")
@example("rms", "NVIDIA H200", "RMS", "NVIDIA H200")
def test_names_never_meet(kernel: str, device: str, other_kernel: str, other_device: str) -> None:
    """Different names have different files, also where upper and lower case are one; equal names one file."""
    one, other = str(place(kernel, device)), str(place(other_kernel, other_device))
    assert (one.casefold() == other.casefold()) == ((kernel, device) == (other_kernel, other_device))


def test_nasty_names_never_meet() -> None:
    """No two of them, which chance alone need not bring together."""
    for names in ([place("k", name) for name in NASTY], [place(name, "NVIDIA H200") for name in NASTY]):
        assert len({str(path).casefold() for path in names}) == len(NASTY)


@settings(deadline=None)
@given(any_name, any_name)
def test_names_stay_in_the_folder(kernel: str, device: str) -> None:
    """No name leaves the folder, hides, or asks more of a file system than ASCII and 255 bytes."""
    root, folder, name = place(kernel, device).parts
    assert root == "root"
    for part in (folder, name):
        assert part.isascii()
        assert len(part) <= 128
        assert set(part) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.+-")
        assert part[0] not in ".-+"
        assert part.split(".")[0] not in {"con", "nul", "prn", "aux", "com1", "lpt9"}
    assert name.endswith(".json")
    assert not name.endswith(".md")


@settings(deadline=None)
@given(any_name, st.tuples(any_name, any_name), st.tuples(any_name, any_name))
def test_full_names_never_meet(plain: str, device: tuple[str, str], other: tuple[str, str]) -> None:
    """The name that tells all of a device is no name of a product, and equal for equal devices only."""
    assert (full_file_name(*device) == full_file_name(*other)) == (device == other)
    assert full_file_name(*device) != file_name(plain)
    assert len(full_file_name(*device)) <= 128


def test_names_are_stable_and_readable() -> None:
    """These names are on users' disks: a change of them is a change of a promise."""
    full = full_file_name("AMD Radeon Graphics", "amd", "gfx1103", "12")
    assert full == "amd_radeon_graphics_amd_gfx1103_12+a498de2e5986.json"
    assert [
        str(place(*names).relative_to("root"))
        for names in [
            ("rms_norm_fwd", "NVIDIA H200"),
            ("rms_norm_fwd", "NVIDIA H200 NVL"),
            ("rms_norm_fwd", "NVIDIA H200 MIG 1g.18gb"),
            ("_rmsNorm", "AMD Instinct MI300X"),
        ]
    ] == [
        "rms_norm_fwd/nvidia_h200.json",
        "rms_norm_fwd/nvidia_h200_nvl.json",
        "rms_norm_fwd/nvidia_h200_mig_1g_18gb+9fc9504a1165.json",
        "rmsnorm+ca1983a4e2c6/amd_instinct_mi300x+7afa9e384ea3.json",
    ]
