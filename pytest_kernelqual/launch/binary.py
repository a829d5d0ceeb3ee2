"""Compiled code as a digest that paths and line numbers do not move."""

import io
import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any

try:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection
except ImportError:  # where Triton comes with ROCm's torch the extra may be left out: then no code is known to be equal
    ELFFile = None

# `.debug_line`, `.nv_debug_ptx_txt`, their relocations, and their twins in the Mercury code of newer NVIDIA GPUs.
_DEBUG = re.compile(r"(\.nv\.merc)?(\.rela?)?\.(nv_)?debug_")
# Names are hashed where they stand; their places in a table move with the debug sections'.
_HEADER = ("sh_type", "sh_flags", "sh_addr", "sh_link", "sh_info", "sh_addralign", "sh_entsize", "sh_size")
_SEGMENT = ("p_type", "p_flags", "p_vaddr", "p_paddr", "p_filesz", "p_memsz", "p_align")
_FILE = ("e_type", "e_machine", "e_version", "e_entry", "e_flags")
_SYMBOL = ("st_value", "st_size", "st_info", "st_other")


@lru_cache(maxsize=1024)
def code_digest(binary: bytes) -> str | None:
    """Return the SHA-256 of all that a cubin or hsaco holds besides debug information; None for what is no such file.

    Hashed are the sections that are not for debuggers, the symbols and segments, and the header.
    """
    try:
        found = sha256()
        for part in _parts(ELFFile(io.BytesIO(binary))):
            text = part if isinstance(part, bytes) else repr(part).encode()
            found.update(len(text).to_bytes(8, "little") + text)
        return found.hexdigest()
    except Exception:  # noqa: BLE001 - the parser was seen to raise errors of many types on damaged files
        return None


def _parts(elf: Any) -> Iterator[Any]:
    yield [(name, elf[name]) for name in _FILE], sorted(elf["e_ident"].items())
    for segment in elf.iter_segments():
        # The first segment of a file that is loaded as it is spans its tables of sections too.
        yield [(name, segment[name]) for name in _SEGMENT]
    names = [section.name for section in elf.iter_sections()]
    for section in elf.iter_sections():
        if _DEBUG.match(section.name) or (section["sh_type"] == "SHT_STRTAB" and not section["sh_flags"]):
            continue
        if isinstance(section, SymbolTableSection) and not section["sh_flags"]:
            yield from (_symbol(symbol, names) for symbol in section.iter_symbols() if not _of_debugger(symbol, names))
            continue
        yield section.name, [(name, section[name]) for name in _HEADER]
        if section["sh_type"] != "SHT_NOBITS":
            yield bytes(section.data())


def _symbol(symbol: Any, names: list[str]) -> list[Any]:
    return [symbol.name, _home(symbol, names), *(symbol[name] for name in _SYMBOL)]


def _of_debugger(symbol: Any, names: list[str]) -> bool:
    return symbol["st_info"]["type"] == "STT_FILE" or bool(_DEBUG.match(_home(symbol, names)))


def _home(symbol: Any, names: list[str]) -> str:
    """Return the name of the section that a symbol is of."""
    index = symbol["st_shndx"]
    return names[index] if isinstance(index, int) else str(index)
