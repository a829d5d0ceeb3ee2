"""Names of files and folders that any file system keeps apart."""

import re
from hashlib import sha256
from unicodedata import normalize

# Plain names stand for themselves. Upper and lower case would be one name on some file systems,
# so a plain kernel has lower case only and a plain device upper case only.
_PLAIN_KERNEL = re.compile(r"[a-z0-9_]+")
_PLAIN_DEVICE = re.compile(r"[A-Z0-9](?: ?[A-Z0-9.-])+(?<=[A-Z0-9])")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_UNSAFE = re.compile(r"[^a-z0-9_.-]+")
_BETWEEN = "\0"
_LONGEST_PLAIN = 100
_LONGEST_READABLE = 60
_HASH_DIGITS = 12


def folder_name(kernel: str) -> str:
    """Return the folder of a kernel: its name, or a readable part of it, `+` and a hash."""
    return _name(kernel, plain=_PLAIN_KERNEL.fullmatch(kernel) is not None)


def file_name(device: str) -> str:
    """Return the file of a device, as `nvidia_h200.json` for `NVIDIA H200`."""
    return f"{_name(device, plain=_PLAIN_DEVICE.fullmatch(device) is not None)}.json"


def full_file_name(*device: str) -> str:
    """Return the file of a device of which another one has the name, by everything that tells them apart."""
    return f"{_name(_BETWEEN.join(device), plain=False)}.json"


def _name(text: str, *, plain: bool) -> str:
    readable = _UNSAFE.sub("_", normalize("NFKD", text).lower())
    if plain and len(text) <= _LONGEST_PLAIN and not _RESERVED.fullmatch(readable):
        return readable
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{readable[:_LONGEST_READABLE].replace('.', '_').strip('_-') or 'name'}+{digest}"
