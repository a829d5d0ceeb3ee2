"""How a tile is spread over registers, lanes and warps, as far as that decides the order of arithmetic."""

import re
from collections.abc import Mapping, Sequence

from pytest_kernelqual.judge.order_ir import Operation, UnreadableError, is_integer, shape

Layout = Mapping[str, Sequence[Sequence[int]]]
"""Bases of a linear layout by `register`, `lane`, `warp` and `block`: coordinates of powers of two."""

_PLACES = {"register": "elements per thread", "lane": "lanes along the axis", "warp": "warps along the axis"}

Attributes = list[tuple[str, str]]


def reduction_attributes(operation: Operation, layout: Layout, target: str) -> Attributes:
    """Return the layout of a reduction's operand projected on its axis: what is combined where, in which order."""
    axis = int(operation.attribute("axis") or 0)
    operand = operation.operands[0].type
    attributes = [("elements along the axis", str(shape(operand)[axis]))]
    bases: list[str] = []
    for place in ("register", "lane", "warp", "block"):
        along = [
            (number, basis[axis], any(basis[:axis]) or any(basis[axis + 1 :]))
            for number, basis in enumerate(layout.get(place, ()))
            if basis[axis]
        ]
        if place in _PLACES:
            attributes.append((_PLACES[place], str(2 ** len(along))))
        # Other machines than NVIDIA's have shortcuts for lanes at some places.
        exact = any(mixed for *_, mixed in along) or (place == "lane" and not target.startswith("cuda"))
        bases.append(f"{place} {' '.join(f'{number}:{at}' if exact else str(at) for number, at, _ in along)}".strip())
        if any(mixed for *_, mixed in along):
            bases.append(str([list(basis) for basis in layout.get(place, ())]))
    attributes.append(("places of the elements", ", ".join(bases)))
    reverse = operation.attribute("reverse")
    return attributes + ([("reverse", reverse)] if reverse else [])


def exact_dot(operation: Operation) -> bool:
    """Tell whether a dot sums integers, which any order sums alike."""
    return bool(operation.results) and is_integer(operation.results[0].type)


def dot_attributes(operation: Operation, layouts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return which instructions a dot uses, and how it walks along the axis that is summed."""
    left, right = operation.operands[:2]
    result = operation.results[0].type if operation.results else operation.operands[2].type
    encoding = _encoding(result, layouts)
    tile = shape(left.type)
    attributes = [
        ("family", _family(operation, encoding)),
        ("elements along the summed axis", str(tile[-1])),
        ("types", " ".join(_element(item) for item in (left.type, right.type, result))),
        ("values packed together", " ".join(_width(item.type) for item in (left, right))),
    ]
    text = operation.text.partition(" | ")[0]
    for name in ("inputPrecision", "maxNumImpreciseAcc", "two_ctas"):
        found = re.search(rf"{name}(?: = (\w+))?", text)
        if found:
            attributes.append((name, found.group(1) or "true"))
    return tuple(attributes)


def _family(operation: Operation, encoding: str) -> str:
    if operation.name == "ttng.tc_gen5_mma":
        return f"mma v5 {' '.join(re.findall(r'blockM = [0-9]+', encoding))}"
    kind, fields = re.match(r"#?(?:ttg\.)?(\w+)", encoding), dict(re.findall(r"(\w+) = (\[[^\]]*\]|\w+)", encoding))
    name = kind.group(1) if kind else ""
    if name == "nvidia_mma":
        sizes = fields.get("instrShape", "[]").strip("[]").split(", ")
        depth = f" instruction K {sizes[2]}" if len(sizes) > 2 else ""  # noqa: PLR2004 - M, N and K
        return f"mma v{fields.get('versionMajor', '?')}{depth}"
    if name in {"amd_mfma", "amd_wmma"}:
        return f"{name} v{fields.get('version', '?')} instruction {fields.get('instrShape', '?')}"
    if name in {"blocked", "linear", "slice"}:
        return "fma"
    raise UnreadableError(f"a dot on the layout {encoding[:60]!r}")


def _encoding(type_text: str, layouts: Mapping[str, str]) -> str:
    found = re.search(r", (#[\w.]+(?:<.*>)?)(?:, #[^>]*)?>$", type_text)
    text = found.group(1) if found else ""
    return layouts.get(text.split(",")[0], text)


def _element(type_text: str) -> str:
    found = re.match(r"(?:tensor|!ttg\.memdesc)<(?:\d+x)+([\w.]+)", type_text)
    return found.group(1) if found else type_text


def _width(type_text: str) -> str:
    found = re.search(r"kWidth = (\d+)", type_text)
    return found.group(1) if found else "-"
