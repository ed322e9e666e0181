"""Key codes that collide on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import numpy.typing as npt

from penstock import keys
from penstock.hashing import hash_bytes, hash_words

Hashes = npt.NDArray[np.uint64]


@contextmanager
def colliding_codes(different: int) -> Iterator[None]:
    """Only so many different codes for strings, wide decimals and composite keys.

    A 64-bit collision is too rare to wait for; this makes it common, in this process and for as
    long as the context lasts. Masters must be made inside.
    """

    def few_of_bytes(
        data: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        seeds: Hashes,
    ) -> Hashes:
        return hash_bytes(data, starts, lengths, seeds) % np.uint64(different)

    def few_of_words(values: npt.NDArray[np.int64], seeds: Hashes) -> Hashes:
        return hash_words(values, seeds) % np.uint64(different)

    with (
        mock.patch.object(keys, "hash_bytes", few_of_bytes),
        mock.patch.object(keys, "hash_words", few_of_words),
    ):
        yield
