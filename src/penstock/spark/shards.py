"""Sharding by key range: each shard's rows go to one task, which alone reads that part of R.

The shard of a row is computed by Spark itself, without Python: its key's code is compared with the
codes at which R is cut into equal parts. For integers the code is the value; for strings and
binaries it is XXH64 with the master's seed, which is what Spark's `xxhash64` computes when that
seed is 42 (the one that `build_master` takes). Any other key is sharded by Spark's hash of the key:
no key is then cached by two tasks of a micro-batch, but all of them read all of R.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.errors import OptionError
from penstock.keys import HASH_SEED, family

_SPARK_SEED = 42
_MASK = 0xFFFFFFFF
_MOST = 10_000


def parse_shards(shards: object) -> int | None:
    """The number of shards, checked."""
    if shards is None:
        return None
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= _MOST:
        raise OptionError.out_of_range("shards", shards, f"a whole number, 1 to {_MOST}, or None")
    return shards


def sharded(
    df: DataFrame,
    shards: int,
    stream_key: Sequence[str],
    key_types: Sequence[tuple[pa.DataType, pa.DataType]],
    hash_seed: int,
    cuts: Sequence[int],
) -> DataFrame:
    """`df` in `shards` partitions by key; `key_types` are the stream's and the master's."""
    code = _code(stream_key, key_types, hash_seed)
    if code is None or not cuts:
        return df.repartition(shards, *[F.col(_quoted(n)) for n in stream_key])
    # A null key compares as null and is put with the lowest keys; it is answered without a read.
    above = [F.when(code >= F.lit(cut), 1).otherwise(0) for cut in cuts]
    names = F.array([F.lit(n) for n in partition_names(shards)])
    return df.repartition(shards, F.element_at(names, reduce(add, above) + 1))


def _code(
    stream_key: Sequence[str], key_types: Sequence[tuple[pa.DataType, pa.DataType]], seed: int
) -> Column | None:
    """The key's code as an expression, where Spark can compute it."""
    if len(stream_key) != 1:
        return None
    ours, theirs = key_types[0]
    column = F.col(_quoted(stream_key[0]))
    if family(ours) == family(theirs) == "integer" and not pa.types.is_uint64(theirs):
        return column.cast("bigint")
    if family(theirs) in ("string", "binary") and seed == HASH_SEED == _SPARK_SEED:
        return F.xxhash64(column)
    return None


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def partition_names(partitions: int) -> list[int]:
    """For each partition, the smallest number that Spark's hash partitioning puts there.

    Spark puts a row into the partition murmur3(value) modulo the number of partitions; 0 and 1
    would share one of two.
    """
    names: dict[int, int] = {}
    number = 0
    while len(names) < partitions:
        names.setdefault(spark_hash(number) % partitions, number)
        number += 1
    return [names[partition] for partition in range(partitions)]


def shard_names(shards: int, partitions: int) -> tuple[int, ...]:
    """For each shard its own number, such that Spark spreads the shards evenly over partitions.

    >>> [spark_hash(name) % 2 for name in shard_names(5, 2)]
    [0, 1, 0, 1, 0]
    """
    left = [shards // partitions + (at < shards % partitions) for at in range(partitions)]
    found: list[list[int]] = [[] for _ in left]
    number = 0
    while any(left):
        at = spark_hash(number) % partitions
        if left[at]:
            found[at].append(number)
            left[at] -= 1
        number += 1
    return tuple(found[shard % partitions][shard // partitions] for shard in range(shards))


def executors_of(settings: Callable[[str, str], str | None]) -> int:
    """How many executors the session's settings name; one where they name none.

    >>> executors_of({"spark.master": "local-cluster[2,1,1024]"}.get)
    2
    """
    named = settings("spark.executor.instances", "") or ""
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,.*", settings("spark.master", "") or "")
    if named.isdigit():
        return max(int(named), 1)
    return int(cluster.group(1)) if cluster else 1


def spark_hash(value: int, seed: int = 42) -> int:
    """Spark's `hash` of one int: 32-bit murmur3.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    k = (value * 0xCC9E2D51) & _MASK
    k = ((k << 15 | k >> 17) & _MASK) * 0x1B873593 & _MASK
    h = (seed ^ k) & _MASK
    h = ((h << 13 | h >> 19) & _MASK) * 5 + 0xE6546B64 & _MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h
