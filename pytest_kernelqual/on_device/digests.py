"""Digests of bytes that lie on a device: equal on every device, and fast where there are many."""

import ctypes
import hashlib
import struct

import torch

from pytest_kernelqual.on_device import streams

# Up to this size the digest is the SHA-256 of the bytes themselves.
# Beyond it, copying and hashing on the host would take longer than the launches: the SHA-256 is then that of a fold.
_PLAIN_BYTES = 1 << 20
_CHUNK_WORDS = {"cpu": 1 << 18}
_DEVICE_CHUNK_WORDS = 1 << 22
_KEY = streams.Key("digest", 0)
_LANES = 2


def digest(data: torch.Tensor) -> str:
    """Return "sha256:..." of contiguous bytes (uint8, one axis)."""
    return "sha256:" + hashlib.sha256(material(data)).hexdigest()


def material(data: torch.Tensor) -> bytes:
    """Return what a digest of contiguous bytes (uint8, one axis) hashes: the bytes, or a fold of many.

    The fold is 128 bits: two sums modulo 2**64 of the words of 32 bits, each times a word that hashes its position.
    Integer sums are exact in every order, so that each device finds the same.
    Two arrays that differ have equal folds with a probability of about 2**-64 over the choice of the hash.
    """
    if data.numel() <= _PLAIN_BYTES:
        return _host_bytes(data)
    whole = data.numel() // 4 * 4
    words = data[:whole].view(torch.int32)
    chunk = _CHUNK_WORDS.get(data.device.type, _DEVICE_CHUNK_WORDS)
    sums = torch.zeros(_LANES, dtype=torch.int64, device=data.device)
    for start in range(0, words.numel(), chunk):
        part = words[start : start + chunk].to(torch.int64)
        for lane in range(_LANES):
            weights = streams.words(_KEY, lane, start, part.numel(), data.device)
            sums[lane] += weights.to(torch.int64).mul_(part).sum()
    return struct.pack("<Q2q", data.numel(), *sums.tolist()) + _host_bytes(data[whole:])


def _host_bytes(data: torch.Tensor) -> bytes:
    host = data.cpu()
    return ctypes.string_at(host.data_ptr(), host.numel()) if host.numel() else b""
