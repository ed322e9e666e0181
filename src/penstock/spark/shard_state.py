"""A shard's state in Spark: its segments, what was answered, and a line about the whole.

| state | key | value |
| --- | --- | --- |
| `account` | | the whole as JSON: a token, a timer, which segments and which notes there are |
| `segments` | stamp | rows that began to wait together; or that found no partner and are retried |
| `answered` | stamp | a note: numbers of rows of earlier segments that were answered in a step |

Stamps count what was written. A step is one visit of the shard, and its token is drawn at random: a
worker whose soft copy has another token, or none, is not up to date, even if it has done as many
steps (a task that Spark ran twice).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from penstock.errors import StateError

_FORMAT, _WITH_RETRIED = 1, 2
"""The second is of accounts that name rows that are retried, and of no others."""
_KEY = StructType([StructField("stamp", LongType(), False)])
_VALUE = StructType([StructField("value", BinaryType(), False)])


@dataclass(frozen=True)
class Stored:
    """What the account says of a segment: its key, the stamp of its last writing, its rows."""

    key: int
    written: int
    rows: int


@dataclass(frozen=True)
class Retried:
    """What the account says of a segment of rows that are retried.

    `due` is when they are looked for next, `oldest` when the first of them arrived: milliseconds of
    the shard's time.
    """

    key: int
    rows: int
    nbytes: int
    due: int
    oldest: int


@dataclass(frozen=True)
class Account:
    """Where a shard stands after a step.

    Attributes:
        stamp: of what was written last.
        token: the step's.
        arrived: the number that the next row gets.
        timer: the timer that is set, if any.
        segments: those with rows that wait, in the order of their rows.
        notes: those that tell rows of these segments that wait no longer.
        time: of the step, in seconds.
        ahead: how far this was ahead of the clock, which may have been set back.
        before: the tokens of the last steps before: a worker that has the rows of one of them can
            catch up.
        retried: segments whose rows found no partner yet, in no order.
    """

    stamp: int = 0
    token: str = ""
    arrived: int = 0
    timer: int | None = None
    segments: tuple[Stored, ...] = ()
    notes: tuple[int, ...] = ()
    time: float = 0.0
    ahead: float = 0.0
    before: tuple[str, ...] = ()
    format: int = field(default=_FORMAT)
    retried: tuple[Retried, ...] = ()

    def to_bytes(self) -> bytes:
        told = asdict(self)
        del told["retried"]
        if self.retried:
            # Without their names, since there may be many.
            retried = [tuple(asdict(one).values()) for one in self.retried]
            told |= {"format": _WITH_RETRIED, "retried": retried}
        return json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def of_bytes(cls, text: bytes) -> Account:
        found: dict[str, Any] = json.loads(text)
        if found["format"] not in (_FORMAT, _WITH_RETRIED):
            raise StateError(
                f"the checkpoint's state is of format {found['format']}, and this version of "
                f"penstock knows formats up to {_WITH_RETRIED}. Go on with the version that wrote "
                "it until nothing waits."
            )
        found["format"] = _FORMAT
        found["retried"] = tuple(Retried(*one) for one in found.get("retried", ()))
        found["segments"] = tuple(Stored(**one) for one in found["segments"])
        found["notes"] = tuple(found["notes"])
        found["before"] = tuple(found.get("before", ()))
        return cls(**found)

    def but(self, **changed: Any) -> Account:
        return replace(self, **changed)


class ShardState:
    """Reads and writes the state of the shard that Spark has set, and counts the bytes."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._account = handle.getValueState("account", _VALUE)
        self._segments = handle.getMapState("segments", _KEY, _VALUE)
        self._answered = handle.getMapState("answered", _KEY, _VALUE)
        self.bytes_read = self.bytes_written = 0

    def read_account(self) -> Account | None:
        """None when nothing waits."""
        found = self._account.get()
        return None if found is None else Account.of_bytes(self._read(found[0]))

    def read_segment(self, key: int) -> bytes:
        return self._read(_there(self._segments.getValue((key,)), "segment", key))

    def read_answered(self, stamp: int) -> bytes:
        return self._read(_there(self._answered.getValue((stamp,)), "note", stamp))

    def write_account(self, account: Account) -> None:
        self._account.update((self._write(account.to_bytes()),))

    def write_segment(self, key: int, packed: bytes) -> None:
        self._segments.updateValue((key,), (self._write(packed),))

    def write_answered(self, stamp: int, packed: bytes) -> None:
        self._answered.updateValue((stamp,), (self._write(packed),))

    def remove_segment(self, key: int) -> None:
        self._segments.removeKey((key,))

    def remove_answered(self, stamp: int) -> None:
        self._answered.removeKey((stamp,))

    def clear(self) -> None:
        """Nothing waits: leave nothing behind."""
        for state in (self._account, self._segments, self._answered):
            state.clear()

    def set_timer(self, before: int | None, after: int | None) -> None:
        """Have this timer instead of that one."""
        if before == after:
            return
        if before is not None:
            self._handle.deleteTimer(before)
        if after is not None:
            self._handle.registerTimer(after)

    def _read(self, value: Any) -> bytes:
        value = bytes(value)
        self.bytes_read += len(value)
        return value

    def _write(self, value: bytes) -> bytearray:
        self.bytes_written += len(value)
        return bytearray(value)


def _there(found: Any, what: str, key: int) -> Any:
    if found is None:
        raise StateError(
            f"the state has no {what} {key}, although its account names it. The checkpoint "
            "is damaged; begin with a new one from where the sink ends."
        )
    return found[0]
