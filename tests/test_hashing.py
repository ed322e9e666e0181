"""XXH64 must be XXH64: compared with the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash

from penstock.hashing import first_unlike, hash_buffer, hash_bytes, hash_words

SEEDS = [0, 1, 42, 2**63, 2**64 - 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_length_up_to_two_hundred(seed: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, 1000, dtype=np.uint8)
    lengths = np.arange(201)
    starts = np.arange(201) * 3  # most of them not aligned
    hashes = hash_bytes(data, starts, lengths, np.full(201, seed, dtype=np.uint64))
    expected = [
        xxhash.xxh64_intdigest(data[s : s + n].tobytes(), seed)
        for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    assert hashes.tolist() == expected


def test_each_row_has_its_own_seed() -> None:
    data = np.frombuffer(b"abcabc", dtype=np.uint8)
    seeds = np.array([7, 2**64 - 3], dtype=np.uint64)
    hashes = hash_bytes(data, np.array([0, 3]), np.array([3, 3]), seeds)
    assert hashes.tolist() == [xxhash.xxh64_intdigest(b"abc", int(s)) for s in seeds]
    assert seeds.tolist() == [7, 2**64 - 3], "the seeds must not be written to"


def test_words_are_their_little_endian_bytes() -> None:
    values = np.array([0, 1, -1, 2**63 - 1, -(2**63)], dtype=np.int64)
    hashes = hash_words(values, np.full(5, 42, dtype=np.uint64))
    expected = [
        xxhash.xxh64_intdigest(int(v).to_bytes(8, "little", signed=True), 42) for v in values
    ]
    assert hashes.tolist() == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [0, 1, 7, 31, 32, 33, 4096, 66_336])
def test_one_buffer(size: int, seed: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert hash_buffer(data, seed) == xxhash.xxh64_intdigest(data, seed)
    assert hash_buffer(memoryview(data), seed) == xxhash.xxh64_intdigest(data, seed)


def test_first_unlike_names_the_first_of_its_part() -> None:
    data = np.random.default_rng(5).integers(0, 256, 400, dtype=np.uint8)
    starts, lengths = np.arange(4) * 100, np.full(4, 100)
    checksums = np.array(
        [xxhash.xxh64_intdigest(data[s : s + 100].tobytes()) & 0xFFFFFFFF for s in starts],
        dtype=np.uint32,
    )
    assert first_unlike(data, starts, lengths, checksums, 0, 4) == -1
    data[150] ^= 1
    data[399] ^= 128
    assert first_unlike(data, starts, lengths, checksums, 0, 4) == 1
    assert first_unlike(data, starts, lengths, checksums, 2, 4) == 3
    assert first_unlike(data, starts, lengths, checksums, 2, 3) == -1
