"""What a builder makes its inputs from: seeded tensors that are remembered, and restored before every launch."""

import hashlib
import json
import random
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import torch

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.messages import InputInfo
from pytest_kernelqual.model.profiles import FLOAT_PROFILES, INTEGER_PROFILES, ORDERS
from pytest_kernelqual.on_device import element_types, layouts, profiles, streams
from pytest_kernelqual.on_device.forms import Form, finite, rounded, whole
from pytest_kernelqual.on_device.layouts import PLAIN, Exposure
from pytest_kernelqual.on_device.ordinals import Ordinals
from pytest_kernelqual.on_device.reachable import reachable_tensors
from pytest_kernelqual.on_device.snapshots import Draw, InputTensor, Memory, digest, fill, placed, storage_id


class Allocate(Protocol):
    """Gives memory for an input."""

    def __call__(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str
    ) -> torch.Tensor:
        """Return a tensor of this shape and strides (in elements) on the run's device."""


class SeededInputs:
    """Make inputs that depend on `stream` alone: the same bytes on every device, in every process, in any order.

    `seed` (32 bits, derived from the stream) is for generators of the builder's own.
    """

    def __init__(
        self,
        *,
        stream: str,
        device: torch.device,
        interpreted: bool,
        allocate: Allocate,
        exposure: Exposure = PLAIN,
        draws: Callable[[torch.Tensor, str], bool] = lambda _tensor, _name: True,
    ) -> None:
        """Make inputs on `device` in memory from `allocate(shape, strides, dtype)`.

        They take the profile of the exposure where they can, and the memory that it gives them.
        Those of which `draws(tensor, name)` is false hold what `allocate` left in them instead of what is asked for.
        """
        self.seed = int.from_bytes(hashlib.sha256(f"seed\0{stream}".encode()).digest()[:4], "little")
        self.device = device
        self.interpreted = interpreted
        self.exposed: list[str] = []
        """Names of the inputs that the exposure makes other than the builder asks for."""
        self._stream = stream
        self._allocate = allocate
        self._exposure = exposure
        self._is_drawn = draws
        self._made = 0
        self._remembered: dict[str, torch.Tensor] = {}
        self._inputs: list[InputTensor] = []
        self._memories: dict[int, Memory] = {}
        self._described: list[InputInfo] = []
        self._frozen = False

    def normal(self, shape: Sequence[int], *, mean: float = 0.0, std: float = 1.0, **layout: Any) -> torch.Tensor:
        """Return normally distributed values; beyond the largest finite value of the dtype they are that value."""
        mean, std = finite("mean", mean), finite("std", std)
        if std < 0:
            raise InputError(f"std={std!r} is negative; use a standard deviation of at least 0")
        form = Form("normal", shape, layout, torch.float32, FLOAT_PROFILES)
        part = form.real_part("use randint(low, high, shape)")
        compute = element_types.compute_type(part)
        mean, std = rounded("mean", mean, compute), rounded("std", std, compute)
        limit = element_types.largest(part)
        bounded = streams.LARGEST_NORMAL * std + abs(mean) <= limit
        key = self._key()

        def draw(start: int, count: int) -> torch.Tensor:
            values = streams.normal(key, start, count, self.device, compute).mul_(std).add_(mean)
            return values if bounded else values.clamp_(-limit, limit)

        return self._make_real(form, draw, key, Ordinals.of(part))

    def uniform(self, shape: Sequence[int], *, low: float = 0.0, high: float = 1.0, **layout: Any) -> torch.Tensor:
        """Return uniformly distributed values of [low, high), after rounding to the dtype too."""
        low, high = finite("low", low), finite("high", high)
        form = Form("uniform", shape, layout, torch.float32, FLOAT_PROFILES)
        part = form.real_part("use randint(low, high, shape)")
        limit = element_types.largest(part)
        if not -limit <= low < high <= limit:
            raise InputError(f"[low={low!r}, high={high!r}) must be within -{limit!r} to {limit!r} and not empty")
        least, greatest = element_types.least_from(part, low), element_types.greatest_below(part, high)
        if least > greatest:
            raise InputError(f"{form.dtype} has no value in [low={low!r}, high={high!r}); take a wider range")
        compute = element_types.compute_type(part)
        middle, width = rounded("low + high", low / 2 + high / 2, compute), rounded("high - low", high - low, compute)
        key = self._key()

        def draw(start: int, count: int) -> torch.Tensor:
            values = streams.symmetric(key, start, count, self.device, compute).mul_(width).add_(middle)
            return values.clamp_(least, greatest)

        return self._make_real(form, draw, key, Ordinals.of(part, (least, greatest)))

    def randint(self, low: int, high: int, shape: Sequence[int], **layout: Any) -> torch.Tensor:
        """Return integers of [low, high); InputError where the dtype does not hold each of them exactly."""
        low, high = whole("low", low), whole("high", high)
        form = Form("randint", shape, layout, torch.int64, INTEGER_PROFILES)
        if high <= low:
            raise InputError(f"randint of [low={low}, high={high}) is empty; high must be more than low")
        form.must_hold(low, high - 1)
        span = high - low
        if 1 << 63 < span < 1 << 64:
            raise InputError(f"high - low = {span} is between 2**63 and 2**64; use at most 2**63, or 2**64")
        key, first = self._key(), low - (1 << 64) if low >> 63 > 0 else low
        exposing = profiles.integer_draw(
            form.profile or self._exposure.profile, key, prod(form.shape), span, self.device
        )

        def draw(start: int, count: int) -> torch.Tensor:
            if exposing is not None:
                return exposing(start, count).add(first)
            return streams.integers(key, start, count, self.device, span).add_(first)

        return self._make(form, draw, exposed=exposing is not None)

    def bernoulli(self, shape: Sequence[int], *, p: float = 0.5, **layout: Any) -> torch.Tensor:
        """Return true (1 in dtypes other than bool, the default) with probability p."""
        if not 0 <= finite("p", p) <= 1:
            raise InputError(f"p={p!r} must be a probability from 0 to 1")
        form = Form("bernoulli", shape, layout, torch.bool)
        form.must_hold(0, 1)
        key = self._key()
        return self._make(form, lambda start, count: streams.below(key, start, count, self.device, p))

    def permutation(self, n: int, **layout: Any) -> torch.Tensor:
        """Return a permutation of 0 .. n-1, n at most 2**32."""
        form = Form("permutation", (n,), layout, torch.int64, ORDERS)
        form.must_hold(0, max(form.shape[0] - 1, 0))
        if form.shape[0] > 1 << 32:
            raise InputError(f"n={n} is more than 2**32, the most that permutation takes")
        values = streams.permutation(self._key(), form.shape[0], self.device)
        order = form.profile or self._exposure.profile
        if order in ORDERS:
            values = values.sort(descending=order == "reversed").values
        return self._make(form, lambda start, count: values[start : start + count], exposed=order in ORDERS)

    def arange(self, n: int, **layout: Any) -> torch.Tensor:
        """Return 0 .. n-1."""
        form = Form("arange", (n,), layout, torch.int64)
        form.must_hold(0, max(form.shape[0] - 1, 0))
        return self._make(form, lambda start, count: torch.arange(start, start + count, device=self.device))

    def full(self, shape: Sequence[int], value: complex, **layout: Any) -> torch.Tensor:
        """Return one value everywhere; the default dtype is that of the value: bool, int64, float32 or complex64."""
        kinds = {bool: torch.bool, int: torch.int64, complex: torch.complex64}
        form = Form("full", shape, layout, kinds.get(type(value), torch.float32))
        bits = element_types.bits_of(value, form.dtype)
        tensor = self._make(form, None)
        target = element_types.as_bits(tensor.detach())
        for part, pattern in enumerate(bits):
            (target if len(bits) == 1 else target[..., part]).fill_(pattern)
        return tensor

    def zeros(self, shape: Sequence[int], **layout: Any) -> torch.Tensor:
        """Return zeros, by default of float32."""
        return self.full(shape, 0, **{"dtype": torch.float32, **layout})

    def ones(self, shape: Sequence[int], **layout: Any) -> torch.Tensor:
        """Return ones, by default of float32."""
        return self.full(shape, 1, **{"dtype": torch.float32, **layout})

    def adopt(self, tensor: torch.Tensor, *, name: str | None = None) -> torch.Tensor:
        """Remember a tensor made otherwise, as it is when the builder returns, and return it."""
        self._must_be_open("adopt")
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"adopt takes a tensor, not {type(tensor).__name__}")
        shown = _shown(tensor)
        if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
            raise InputError(f"adopt takes a plain strided tensor; this one ({shown}) is sparse, conjugate or negative")
        if not self._on_device(tensor):
            raise InputError(
                f"adopt: the tensor ({shown}) is on {tensor.device}, expected {self.device}; move it there"
            )
        if not tensor.is_leaf:
            raise InputError(f"adopt: the tensor ({shown}) is a result that autograd follows; adopt its .detach()")
        known = next((name for name, held in self._remembered.items() if held is tensor), None)
        if known is None:
            self._remembered[self._free_name(name)] = tensor
        elif name not in (None, known):
            raise InputError(f"adopt: the tensor is remembered as {known!r} already; it cannot be {name!r} as well")
        return tensor

    def freeze(self, launch: Any) -> None:
        """Keep the bytes of every input as the builder left them; InputError for a launch that uses other tensors."""
        self._must_be_open("freeze")
        owners = {storage_id(tensor): name for name, tensor in self._remembered.items()}
        known = {id(tensor) for tensor in self._remembered.values()}
        for path, tensor in reachable_tensors(launch):
            if id(tensor) in known:
                continue
            owner = owners.get(storage_id(tensor))
            if owner is None:
                raise InputError(
                    f"the launch uses a tensor that seeded did not make: `{path}` ({_shown(tensor)}); "
                    "make it by seeded.* or hand it to seeded.adopt(t, name=...)"
                )
            if tensor.is_leaf and tensor.requires_grad:
                # A torch.nn.Parameter made of an input gathers a gradient of its own.
                self._remembered[path if path not in self._remembered else f"{path} (of {owner})"] = tensor
        for name, tensor in self._remembered.items():
            if not tensor.is_leaf:
                raise InputError(
                    f"input {name!r} became a result that autograd follows; change it under torch.no_grad()"
                )
            self._inputs.append(self._snapshot(name, tensor))
        self._frozen = True

    def restore(self, *, unchanged: bool = False) -> None:
        """Give inputs bytes (where changed) and metadata of `freeze`, reset randomness; InputError for moved memory."""
        self._must_be_frozen("restore")
        with torch.no_grad():
            for memory in self._memories.values():
                memory.must_stay()
                memory.put_back(unchanged=unchanged)
            for item in self._inputs:
                item.repair()
        # Not torch.manual_seed, which formats a stack trace for every kind of device that is not in use.
        torch.default_generator.manual_seed(self.seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed_all(self.seed)
        random.seed(self.seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(self.seed)

    @property
    def remembered(self) -> dict[str, torch.Tensor]:
        """Name the tensors that were made or adopted so far."""
        return self._remembered

    @property
    def tensors(self) -> list[InputTensor]:
        """List the frozen inputs in the order in which they were made."""
        return self._inputs

    @property
    def memories(self) -> list[Memory]:
        """List the storages of the frozen inputs."""
        return list(self._memories.values())

    def changed(self) -> list[InputTensor]:
        """Return the inputs whose addressable bytes, dtype or shape differ from pristine now; one wait for a device.

        InputError where a launch has moved the memory of an input.
        """
        self._must_be_frozen("changed")
        for memory in self._memories.values():
            memory.must_stay()
        answers = [item.differs() for item in self._inputs]
        pending = [answer for answer in answers if isinstance(answer, torch.Tensor)]
        waited = iter(torch.stack(pending).tolist() if pending else ())
        found = [next(waited) if isinstance(answer, torch.Tensor) else answer for answer in answers]
        return [item for item, answer in zip(self._inputs, found, strict=True) if answer]

    def descriptions(self) -> list[InputInfo]:
        """Describe the pristine inputs, with the SHA-256 of their addressable bytes in row-major order."""
        self._must_be_frozen("descriptions")
        self._described = self._described or [
            InputInfo(
                name=item.name,
                shape=tuple(item.pristine.shape),
                dtype=_type_name(item.pristine),
                strides=tuple(item.pristine.stride()),
                digest=digest(item.pristine),
            )
            for item in self._inputs
        ]
        return self._described

    def drop_gradients(self) -> None:
        """Let the gradients go that a launch has left."""
        for tensor in self._remembered.values():
            tensor.grad = None

    def digest(self) -> str:
        """Return "sha256:..." of names, shapes, dtypes, strides and bytes of the pristine inputs."""
        rows = [[info.name, info.shape, info.dtype, info.strides, info.digest] for info in self.descriptions()]
        return "sha256:" + hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def _key(self) -> streams.Key:
        self._must_be_open("make")
        return streams.Key(self._stream, self._made)

    def _make_real(self, form: Form, draw: Draw, key: streams.Key, values: Ordinals) -> torch.Tensor:
        """Make real or complex values as they are asked for, or as the profile has them."""
        *outer, row = form.shape or (1,)
        shape = (*outer, 2 * row if form.dtype.is_complex else row)
        profile, first = form.profile or self._exposure.profile, not self.exposed
        bits = profiles.float_draw(profile, key, shape, values, self.device, first=first)
        if bits is None:
            return self._make(form, draw, part=_parts)
        return self._make(form, bits, part=lambda tensor: element_types.as_bits(_parts(tensor)), exposed=True)

    def _make(
        self,
        form: Form,
        draw: Draw | None,
        *,
        part: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
        exposed: bool = False,
    ) -> torch.Tensor:
        """Make a tensor and fill what `part` returns of it."""
        self._must_be_open("make")
        name = self._free_name(form.name)
        tensor = self._memory(form, name, exposed=exposed)
        if tensor._is_view():  # noqa: SLF001 - torch has no public word for it
            # A view cannot be cut off from autograd again, should a launch write a result into it.
            tensor = placed(tensor.untyped_storage(), tensor)
        if draw is not None and self._is_drawn(tensor, name):
            fill(part(tensor), draw)
        self._made += 1
        self._remembered[name] = tensor.requires_grad_(form.requires_grad)
        return tensor

    def _memory(self, form: Form, name: str, *, exposed: bool) -> torch.Tensor:
        """Return memory for a tensor as its form or a probe lays it out, and note whether the set makes it another."""
        if form.profile is not None:
            return self._allocate(form.shape, form.strides, form.dtype, name=name)
        strides, offset = self._exposure.layout(name, form.shape, form.strides)
        as_asked = (strides, offset) == (form.strides, 0)
        if exposed or not as_asked:
            self.exposed.append(name)
        if as_asked or self._exposure.probe == "strided":
            return self._allocate(form.shape, strides, form.dtype, name=name)
        # One block without gaps, whose check would take as much memory again.
        reach = offset + sum((size - 1) * stride for size, stride in zip(form.shape, strides, strict=True)) + 1
        if self._exposure.probe == "beyond_2_31":
            layouts.must_fit(name, reach * form.dtype.itemsize, self.device)
        return self._allocate((reach,), (1,), form.dtype, name=name).as_strided(form.shape, strides, offset)

    def _free_name(self, name: str | None) -> str:
        if name is None:
            name = f"input{len(self._remembered)}"
        if not isinstance(name, str) or not name:
            raise InputError(f"name={name!r} must be a string that is not empty")
        if name in self._remembered:
            raise InputError(f"two inputs are named {name!r}; give each a name of its own")
        return name

    def _on_device(self, tensor: torch.Tensor) -> bool:
        if tensor.device.type == "cpu" and tensor.dim() == 0:
            return True  # a scalar that kernels take by value
        if tensor.device.type != self.device.type or tensor.device.type == "cpu":
            return tensor.device.type == self.device.type
        index = self.device.index
        return tensor.device.index == (
            torch.get_device_module(self.device).current_device() if index is None else index
        )

    def _snapshot(self, name: str, tensor: torch.Tensor) -> InputTensor:
        storage = tensor.untyped_storage()
        memory = self._memories.get(storage_id(tensor))
        if memory is None:
            live = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            memory = Memory(name, storage, storage.data_ptr(), live, self._pristine(live))
            self._memories[storage_id(tensor)] = memory
        memory.whole |= tensor.is_contiguous() and tensor.nbytes == memory.live.nbytes
        pristine = placed(memory.pristine.untyped_storage(), tensor)
        return InputTensor(name, tensor, pristine, tensor.detach(), tensor.requires_grad)

    def _pristine(self, live: torch.Tensor) -> torch.Tensor:
        """Return the bytes that `restore` puts back."""
        return live.clone()

    def _must_be_open(self, what: str) -> None:
        if self._frozen:
            raise InputError(f"cannot {what} inputs after the builder returned; make all of them in the builder")

    def _must_be_frozen(self, what: str) -> None:
        if not self._frozen:
            raise InputError(f"cannot tell {what} before freeze(launch)")


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _type_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _shown(tensor: torch.Tensor) -> str:
    return f"shape {tuple(tensor.shape)}, {_type_name(tensor)}, {tensor.device}"
