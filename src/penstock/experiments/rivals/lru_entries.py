"""Codes in the order in which they were last used: a hash table, and a list through its entries.

Compiled. An entry has a number; `codes`, `newer`, `older` and `row` have one element each for it.
`row` is a number of the caller's, ABSENT where a key is known to be missing, FREE where the entry
is not used; a free entry's `older` is the next free one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NONE, ABSENT, FREE = -1, -1, -2
NEWEST, OLDEST, FREED, HIGH, LIVE = range(5)
"""Places in `ends`: the two ends of the list, the first free entry, entries ever used, in use."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(inline="always")
def _home(code, size):  # type: ignore[no-untyped-def]
    mixed = np.uint64(code) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MULTIPLIER
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@njit(inline="always")
def _find(table, codes, code):  # type: ignore[no-untyped-def]
    """Where in the table the code is, or the empty place where it would be."""
    at = _home(code, table.size)
    while table[at] != NONE and codes[table[at]] != code:
        at += 1
        if at == table.size:
            at = 0
    return at


@njit(inline="always")
def _link_newest(entry, newer, older, ends):  # type: ignore[no-untyped-def]
    newer[entry] = NONE
    older[entry] = ends[NEWEST]
    if ends[NEWEST] == NONE:
        ends[OLDEST] = entry
    else:
        newer[ends[NEWEST]] = entry
    ends[NEWEST] = entry


@njit(inline="always")
def _unlink(entry, newer, older, ends):  # type: ignore[no-untyped-def]
    if newer[entry] == NONE:
        ends[NEWEST] = older[entry]
    else:
        older[newer[entry]] = older[entry]
    if older[entry] == NONE:
        ends[OLDEST] = newer[entry]
    else:
        newer[older[entry]] = newer[entry]


@njit(cache=True, nogil=True)
def split(table, entries, ends, wanted, state, hits, rows, gone, unknown):  # type: ignore[no-untyped-def]
    """Part usable rows into those whose row is held, known to be missing, and unknown.

    Each that is known becomes the newest. Returns how many of each there are.
    """
    codes, newer, older, row = entries
    held = missing = others = 0
    for i in range(wanted.size):
        if state.size and state[i] != 0:
            continue
        entry = table[_find(table, codes, wanted[i])]
        if entry == NONE:
            unknown[others] = i
            others += 1
            continue
        if ends[NEWEST] != entry:
            _unlink(entry, newer, older, ends)
            _link_newest(entry, newer, older, ends)
        if row[entry] == ABSENT:
            gone[missing] = i
            missing += 1
        else:
            hits[held] = i
            rows[held] = row[entry]
            held += 1
    return held, missing, others


@njit(cache=True, nogil=True)
def add(table, entries, ends, wanted, rows):  # type: ignore[no-untyped-def]
    """Enter codes that are not held, the last of them as the newest."""
    codes, newer, older, row = entries
    for i in range(wanted.size):
        entry = ends[FREED]
        if entry == NONE:
            entry = ends[HIGH]
            ends[HIGH] += 1
        else:
            ends[FREED] = older[entry]
        ends[LIVE] += 1
        table[_find(table, codes, wanted[i])] = entry
        codes[entry], row[entry] = wanted[i], rows[i]
        _link_newest(entry, newer, older, ends)


@njit(cache=True, nogil=True)
def drop_oldest(table, entries, ends, nbytes, entry_nbytes, row_nbytes, rows):  # type: ignore[no-untyped-def]
    """Drop the codes that were not used for longest, until so many bytes are free or none is left.

    Returns how many of those had rows, which `rows` then names.
    """
    codes, newer, older, row = entries
    dropped = 0
    while nbytes > 0 and ends[OLDEST] != NONE:
        entry = ends[OLDEST]
        nbytes -= entry_nbytes
        if row[entry] != ABSENT:
            nbytes -= row_nbytes
            rows[dropped] = row[entry]
            dropped += 1
        _take_out(table, codes, codes[entry])
        _unlink(entry, newer, older, ends)
        row[entry], older[entry] = FREE, ends[FREED]
        ends[FREED] = entry
        ends[LIVE] -= 1
    return dropped


@njit(inline="always")
def _take_out(table, codes, code):  # type: ignore[no-untyped-def]
    """Take a code out of the table; what lies behind it moves up."""
    size = table.size
    hole = _find(table, codes, code)
    at = hole
    while True:
        at += 1
        if at == size:
            at = 0
        if table[at] == NONE:
            break
        # It may move to the hole if that is not before its home, as one goes round.
        home = _home(codes[table[at]], size)
        if (at - home + size) % size >= (at - hole + size) % size:
            table[hole] = table[at]
            hole = at
    table[hole] = NONE


@njit(cache=True, nogil=True)
def enter_all(table, entries, ends):  # type: ignore[no-untyped-def]
    """Fill an empty table."""
    codes, row = entries[0], entries[3]
    for entry in range(ends[HIGH]):
        if row[entry] != FREE:
            table[_find(table, codes, codes[entry])] = entry


@njit(cache=True, nogil=True)
def move_down(table, entries, ends):  # type: ignore[no-untyped-def]
    """Have the entries in use be the lowest."""
    codes, newer, older, row = entries
    hole = 0
    for entry in range(ends[LIVE], ends[HIGH]):
        if row[entry] == FREE:
            continue
        while row[hole] != FREE:
            hole += 1
        table[_find(table, codes, codes[entry])] = hole
        codes[hole], newer[hole] = codes[entry], newer[entry]
        older[hole], row[hole] = older[entry], row[entry]
        if newer[hole] == NONE:
            ends[NEWEST] = hole
        else:
            older[newer[hole]] = hole
        if older[hole] == NONE:
            ends[OLDEST] = hole
        else:
            newer[older[hole]] = hole
    ends[HIGH], ends[FREED] = ends[LIVE], NONE
