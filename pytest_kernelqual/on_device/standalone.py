"""Launch one kernel on the same bytes as production does and under another config, and compare what both leave."""

# `kernelqual repro` copies this file and puts other constants into it; nothing imports it.

import argparse
import math
import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class Memory(NamedTuple):
    """A tensor: a view of one piece of memory."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: str


class Type(NamedTuple):
    """A type of Triton's language."""

    name: str


# Constants.
INTERPRETED = False
FOLDER = ""
MODULE = ""
KERNEL = ""
FIXED_GRID: tuple[int, ...] = ()
FIXED: dict[str, Any] = {}
CANDIDATE_GRID: tuple[int, ...] = ()
CANDIDATE: dict[str, Any] = {}
# End of constants.

if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"
else:
    os.environ.pop("TRITON_INTERPRET", None)

import torch
import triton

DEVICE = "cpu" if INTERPRETED else "cuda"
# Memory that nobody wrote before the launch holds one of these bytes: NaN as a float, a large number.
FILLS = (0xFF, 0x5A)
ATTEMPTS = 8
GUARD_BYTES = 64 * 1024
LIMIT_S = 180.0


class Left(NamedTuple):
    """What a launch left."""

    tensors: dict[str, torch.Tensor]
    """Of each argument."""
    outside: list[str]
    """Memory beside that of the arguments that was written, one line each."""


def the_kernel() -> Any:
    """Return the jit function, below what autotune and heuristics wrap around it."""
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
    found: Any = import_module(MODULE)
    for part in KERNEL.split("."):
        found = getattr(found, part)
    while hasattr(found.fn, "fn"):
        found = found.fn
    return found


def launched(
    grid: tuple[int, ...], arguments: dict[str, Any], saved: dict[str, Any], fill: int, guard_bytes: int
) -> Left:
    """Launch once in fresh memory between guards."""
    blocks: dict[str, torch.Tensor] = {}
    noise = torch.randint(0, 256, (guard_bytes,), dtype=torch.uint8, generator=torch.Generator().manual_seed(fill))
    noise = noise.to(DEVICE)
    views: dict[str, torch.Tensor] = {}

    def made(name: str, argument: Any) -> Any:
        if type(argument) is tuple:
            return tuple(made(f"{name}[{number}]", part) for number, part in enumerate(argument))
        if isinstance(argument, Type):
            return getattr(triton.language, argument.name)
        if not isinstance(argument, Memory):
            return argument
        if argument.name not in blocks:
            content = saved[argument.name]
            size = content if isinstance(content, int) else content.numel()
            block = torch.empty(guard_bytes + size + guard_bytes, dtype=torch.uint8, device=DEVICE)
            block[:guard_bytes] = noise
            block[guard_bytes + size :] = noise
            block[guard_bytes : guard_bytes + size] = fill if isinstance(content, int) else content.to(DEVICE)
            blocks[argument.name] = block
        middle = blocks[argument.name][guard_bytes : blocks[argument.name].numel() - guard_bytes]
        dtype: torch.dtype = getattr(torch, argument.dtype)
        whole = middle[: middle.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        start = whole.storage_offset() + argument.offset
        views[name] = whole.as_strided(argument.shape, argument.strides, start)
        return views[name]

    given = {name: made(name, argument) for name, argument in arguments.items()}
    the_kernel()[grid](**given)
    if not INTERPRETED:
        torch.cuda.synchronize()
    outside = []
    for name, block in blocks.items():
        end = block.numel() - guard_bytes
        users = [one for one, value in arguments.items() if isinstance(value, Memory) and value.name == name]
        for part, start in ((block[:guard_bytes], -guard_bytes), (block[end:], end - guard_bytes)):
            places = part.ne(noise).nonzero().flatten()
            if places.numel():
                at = start + int(places[0])
                outside.append(
                    f"{places.numel()} bytes written beside the memory of {', '.join(users)}, at byte {at:+d}"
                )
    return Left({name: view.cpu() for name, view in views.items()}, outside)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of each element, one row each."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).reshape(-1, tensor.element_size())


def differences(fixed: Left, own: Left) -> list[str]:
    """Return a line for each argument whose bytes differ, and for each write beside the arguments."""
    lines = [line for line in own.outside if line not in fixed.outside]
    for name, expected in fixed.tensors.items():
        actual = own.tensors[name]
        places = as_bytes(expected).ne(as_bytes(actual)).any(1).nonzero().flatten()
        if places.numel():
            first = index_of(int(places[0]), tuple(expected.shape))
            lines.append(
                f"{name}: {places.numel()} of {expected.numel()} elements differ, first at {first}: "
                f"fixed launch {shown(expected, int(places[0]))}, candidate {shown(actual, int(places[0]))}"
            )
    return lines


def shown(tensor: torch.Tensor, place: int) -> str:
    """Return an element and its bytes, the most significant first."""
    pattern = bytes(as_bytes(tensor)[place].tolist()[::-1]).hex()
    return f"{tensor.reshape(-1)[place].item()!r} (0x{pattern})"


def index_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element by its place in row-major order."""
    return tuple(place // math.prod(shape[axis + 1 :]) % size for axis, size in enumerate(shape))


def too_slow() -> None:
    """End a candidate that does not come back."""
    print(f"REPRODUCED: the candidate did not end within {LIMIT_S:g} s", flush=True)
    os._exit(1)


def main() -> int:
    """Return 1 where the candidate fails or leaves other bytes, 0 where it does not, 2 where nothing can be told."""
    parser = argparse.ArgumentParser(description="Compare a kernel under a config with production's own launch of it.")
    parser.add_argument("--no-guards", action="store_true", help="leave it to a sanitizer to find writes beside memory")
    guard_bytes = 0 if parser.parse_args().no_guards else GUARD_BYTES
    device = "Triton interpreter (semantics only: no GPU runs this)" if INTERPRETED else ""
    try:
        saved = torch.load(Path(__file__).with_name("memory.pt"), weights_only=True)
        device = device or torch.cuda.get_device_name()
        print(f"torch {torch.__version__}, triton {triton.__version__}, {device}", flush=True)
        fixed = {fill: launched(FIXED_GRID, FIXED, saved, fill, guard_bytes) for fill in FILLS}
    except Exception as error:  # noqa: BLE001 - whatever a kernel, a driver or a file may raise
        print(f"cannot compare: the fixed launch raised {type(error).__name__}: {error}")
        return 2
    for attempt in range(ATTEMPTS):
        fill = FILLS[attempt % 2]
        watch = threading.Timer(LIMIT_S, too_slow)
        watch.daemon = True
        watch.start()
        try:
            lines = differences(fixed[fill], launched(CANDIDATE_GRID, CANDIDATE, saved, fill, guard_bytes))
        except Exception as error:  # noqa: BLE001 - the same
            lines = [f"the candidate raised {type(error).__name__}: {error}"]
        watch.cancel()
        if lines:
            print("\n".join(f"REPRODUCED (attempt {attempt + 1} of {ATTEMPTS}): {line}" for line in lines), flush=True)
            return 1
    print(f"not reproduced: {ATTEMPTS} attempts left the same bytes as the fixed launch")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if "--no-guards" in sys.argv:  # a sanitizer reports at the end
        sys.exit(status)
    os._exit(status)  # no teardown: a device that faulted may hang in it
