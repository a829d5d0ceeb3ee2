"""Digests of many bytes: exact on every device, and sensitive to every byte and its place."""

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_kernelqual.on_device import digests

LARGE = (1 << 20) + 7


def made(count: int) -> torch.Tensor:
    """Return bytes that do not repeat soon."""
    return (torch.arange(count, dtype=torch.int64) * 2654435761 >> 7).to(torch.uint8)


@given(st.binary(max_size=300))
def test_few_bytes_have_their_own_sha256(data: bytes) -> None:
    """Up to a mebibyte, anybody can check the digest by other means."""
    tensor = torch.tensor(list(data), dtype=torch.uint8)
    assert digests.digest(tensor) == "sha256:" + hashlib.sha256(data).hexdigest()


def test_many_bytes_are_pinned() -> None:
    """The fold is a promise: a report of one release is compared with that of the next."""
    assert digests.digest(made(LARGE)) == PINNED


@given(st.integers(0, LARGE - 1), st.integers(1, 255))
def test_any_changed_byte_changes_the_digest(place: int, change: int) -> None:
    """No byte is left out, the odd ones at the end included."""
    data = made(LARGE)
    before = digests.material(data)
    data[place] ^= change
    assert digests.material(data) != before


def test_swapped_words_change_the_digest() -> None:
    """The place of a word counts."""
    data = made(LARGE)
    swapped = data.clone()
    swapped[0:4], swapped[400_000:400_004] = data[400_000:400_004], data[0:4]
    assert not torch.equal(swapped, data)
    assert digests.digest(swapped) != digests.digest(data)


def test_parts_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the work is cut into parts, the digest is the same: devices cut differently."""
    data = made(LARGE)
    whole = digests.digest(data)
    monkeypatch.setitem(digests._CHUNK_WORDS, "cpu", 10_001)
    assert digests.digest(data) == whole


PINNED = "sha256:bc7736e774059b1844458d1668491b855a1e08e71f1464e18b4e60b72d885990"
