"""Rows of R by their keys alone, where a master can find them so for less than their pages cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from penstock.errors import OptionError
from penstock.keys import Int64s, Keys
from penstock.masters.base import KeyLookUps, Master
from penstock.rows import Slots

if TYPE_CHECKING:
    from penstock.joins.base import SemiStreamJoin


def looks_up_only(master: Master) -> bool:
    """Whether a master has no pages to read."""
    return bool(getattr(master, "looks_up_only", False))


def key_look_ups(join: type[SemiStreamJoin], master: Master, title: str) -> KeyLookUps | None:
    """The master, if it finds single keys without reading their pages and the join can use that."""
    reads_pages = join.needs_whole_pages or join.reads_unasked
    if reads_pages and looks_up_only(master):
        raise OptionError(
            f"{title} reads whole pages of R, and {getattr(master, 'place', 'this master')} can "
            "only be looked up key by key. Take ROOTJOIN, CACHEJOIN or HYBRIDJOIN; `penstock "
            "master info` says what would give it pages."
        )
    if join.needs_whole_pages:
        return None
    room = getattr(master, "look_up_nbytes", None)
    return cast(KeyLookUps, master) if room is not None and room(1) is not None else None


def waiting_keys(join: SemiStreamJoin, slots: Slots) -> Keys:
    """The keys of rows that wait, in these slots."""
    names = list(join.binding.stream_key)
    columns = join.window.store.take_columns(names, slots)
    return join.binding.keys(pa.RecordBatch.from_arrays(columns, names=names))


def fetch_for_waiting(master: KeyLookUps, join: SemiStreamJoin, pages: Int64s) -> pa.Table:
    """The rows of R that rows wait for on these pages, with or without the pages' others."""
    binding = join.binding
    slots, pages_of = join.window.listed(pages)
    keys = waiting_keys(join, slots)
    order = np.lexsort((keys.codes, pages_of))
    codes, at = keys.codes[order], np.searchsorted(pages, pages_of[order])
    first = np.append(True, (codes[1:] != codes[:-1]) | (at[1:] != at[:-1]))[: len(codes)]
    different = np.bincount(at[first], minlength=len(pages))
    whole = master.worth_a_page(different)
    tables = []
    if whole.any():
        tables.append(master.read(pages[whole], binding.read_columns))
    if not whole.all():
        # Codes that are equal may be of different keys: all that wait are asked for.
        wanted = order[first & ~whole[at]] if binding.meeting.exact else order[~whole[at]]
        found = master.look_up(keys.take(np.sort(wanted)), binding.read_columns)
        tables.append(pa.Table.from_batches([found]))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
