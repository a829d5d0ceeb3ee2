"""Storages told apart without keeping their memory."""

import threading

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class Storages:
    """Numbers of storages, in the order in which they were first seen; no number is given twice."""

    def __init__(self) -> None:
        """Know of none."""
        self._seen: dict[int, tuple[int, StorageWeakRef]] = {}
        self._lock = threading.Lock()

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's storage, a new one where it was not seen before."""
        # The weak reference keeps the identity from being given to another storage; not the memory.
        storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        with self._lock:
            return self._seen.setdefault(storage.cdata, (len(self._seen), storage))[0]

    def __contains__(self, tensor: torch.Tensor) -> bool:
        """Tell whether the tensor's storage was seen."""
        return StorageWeakRef(tensor.untyped_storage()).cdata in self._seen  # type: ignore[no-untyped-call]
