"""What a Python worker does with its tasks, called as Spark would call it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.conftest import sales

from penstock.errors import CorruptMasterError, MasterError, SchemaError, ServerAwayError
from penstock.joins import RootJoin
from penstock.masters import build_master
from penstock.masters.base import Master
from penstock.spark import operators
from penstock.spark.at_once import AtOnce, Measured, in_pieces
from penstock.spark.enrichment import Enrichment, MasterShape
from penstock.spark.reaching import reference
from penstock.spark.task_metrics import COLUMN, METRICS
from penstock.spark.timed_reads import Patience, TimedReads
from penstock.spark.types import handed_over
from penstock.testing.oracle import Rows, assert_same_rows, plain_join

pytestmark = pytest.mark.one_spark  # none is started
NAMES = [metric.name for metric in METRICS]


@pytest.fixture(autouse=True)
def no_operators() -> Iterator[None]:
    operators._IDLE.clear()
    yield
    operators._IDLE.clear()


def task(master: Path, budget: str = "200kB", measured: Measured = "in the last row") -> AtOnce:
    enrichment = Enrichment(reference(master), RootJoin(budget=budget), "sku", None, "null")
    opened = enrichment.master.open()
    shape = MasterShape.of(opened)
    fields = tuple(shape.schema)
    added = tuple(handed_over(f.type, f.name) for f in fields[1:])
    return AtOnce(enrichment, enrichment.identity, fields, shape.key, added, measured)


def batches(table: pa.Table, rows: int = 100) -> Iterator[pa.RecordBatch]:
    return iter(table.combine_chunks().to_batches(max_chunksize=rows))


def answered(out: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows without the column of metrics, which only the last one has."""
    empty = [batch.column(COLUMN).null_count == batch.num_rows for batch in out]
    assert empty == [True] * (len(out) - 1) + [False]
    assert out[-1].column(COLUMN).null_count == out[-1].num_rows - 1
    return [batch.drop_columns(COLUMN) for batch in out]


def told(out: list[pa.RecordBatch]) -> dict[str, int]:
    return dict(zip(NAMES, out[-1].column(COLUMN)[-1].as_py(), strict=True))


def expected(stream: pa.Table, products: pa.Table) -> Rows:
    return plain_join(stream, products, "sku").rows


def test_tasks_share_the_operator(master: Path, products: pa.Table) -> None:
    run = task(master)
    for number in range(3):
        stream = sales(1500, number)
        out = list(run(batches(stream)))
        assert_same_rows(answered(out), expected(stream, products))
        assert told(out)["warmTasks"] == (number > 0)
        assert told(out)["rowsIn"] == 1500
        assert list(operators._IDLE) == [run.identity]


@pytest.mark.parametrize("at", [0, 3, 12])
def test_a_task_that_is_dropped_leaves_nothing(master: Path, products: pa.Table, at: int) -> None:
    run = task(master)
    list(run(batches(sales(500, 1))))
    half = run(batches(sales(1500, 2)))
    for _ in range(at + 1):
        next(half)
    half.close()  # type: ignore[attr-defined]
    assert not operators._IDLE
    stream = sales(1500, 3)
    assert_same_rows(answered(list(run(batches(stream)))), expected(stream, products))


def test_input_that_fails_leaves_nothing(master: Path, products: pa.Table) -> None:
    run = task(master)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(sales(700, 2))
        raise OSError("the socket closed")

    list(run(batches(sales(500, 1))))
    with pytest.raises(OSError, match="socket"):
        list(run(broken()))
    assert not operators._IDLE
    stream = sales(1500, 3)
    assert_same_rows(answered(list(run(batches(stream)))), expected(stream, products))


def test_no_batch_no_operator(master: Path) -> None:
    run = task(master)
    assert list(run(iter([]))) == []
    assert not operators._IDLE
    nothing = pa.RecordBatch.from_pylist([], schema=sales(1).schema)
    assert list(run(iter([nothing]))) == []


def test_metrics_in_a_row_of_their_own(master: Path, products: pa.Table) -> None:
    run = task(master, measured="after the last row")
    stream = sales(1500)
    *rows, last = run(batches(stream))
    assert last.num_rows == 1
    assert told([last])["rowsIn"] == 1500
    assert all(batch.column(COLUMN).null_count == batch.num_rows for batch in rows)
    assert_same_rows([b.drop_columns(COLUMN) for b in rows], expected(stream, products))
    nothing = pa.RecordBatch.from_pylist([], schema=stream.schema)
    assert told(list(run(iter([nothing]))))["rowsIn"] == 0


def test_a_new_version_between_tasks(master: Path, products: pa.Table) -> None:
    run = task(master)
    list(run(batches(sales(500, 1))))
    fewer = products.slice(0, 900)
    build_master(fewer, master, "sku", page_bytes=4096)
    stream = sales(800, 2)
    out = list(run(batches(stream)))
    assert_same_rows(answered(out), expected(stream, fewer))
    assert told(out)["warmTasks"] == 1


def test_pages_that_do_not_fit_any_more_are_refused(master: Path, products: pa.Table) -> None:
    run = task(master)
    list(run(batches(sales(500, 1))))
    one_key = products.set_column(0, "sku", pa.array([6] * 2000)).set_column(
        2, "vendor", pa.array(["v" * 200] * 2000)
    )
    build_master(one_key, master, "sku")
    with pytest.raises(ValueError, match="needs at least"):
        list(run(batches(sales(500, 2))))


def test_columns_that_changed_are_refused(master: Path, products: pa.Table) -> None:
    run = task(master)
    list(run(batches(sales(500, 1))))
    build_master(products.drop_columns("price"), master, "sku")
    with pytest.raises(
        SchemaError, match=r"'price' of the master .*products.arrow was double .* and is gone"
    ):
        list(run(batches(sales(500, 2))))
    build_master(products, master, ["sku", "vendor"])
    with pytest.raises(SchemaError, match=r"products.arrow was \(sku\) .* is \(sku, vendor\)"):
        list(run(batches(sales(500, 2))))


def test_operators_that_no_one_uses_are_dropped(
    master: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = task(master), task(master, "300kB")
    list(first(batches(sales(100))))
    list(second(batches(sales(100))))
    assert set(operators._IDLE) == {first.identity, second.identity}
    later = operators.time.monotonic() + 1000
    operators._IDLE[second.identity].used_at = later
    monkeypatch.setattr(operators.time, "monotonic", lambda: later)
    list(second(batches(sales(100))))
    assert set(operators._IDLE) == {second.identity}


def test_large_batches_are_pushed_in_pieces(master: Path, products: pa.Table) -> None:
    stream = sales(20_000)
    run = task(master, "150kB", measured="no")
    out = list(run(batches(stream, 20_000)))
    assert out[0].schema.names == ["sku", "sale", "at", "price", "vendor"]
    assert_same_rows(out, expected(stream, products))
    operator = operators._IDLE[run.identity]
    assert operator.join.stats.held_bytes_max <= 150_000
    pieces = list(in_pieces(stream.to_batches()[0], 10_000))
    assert sum(piece.num_rows for piece in pieces) == 20_000
    assert max(piece.nbytes for piece in pieces) <= 10_000


class Flaky:
    """Fails the first reads."""

    def __init__(self, master: Master, errors: list[MasterError]) -> None:
        self._master, self._errors = master, errors

    def read(self, pages: object, columns: object) -> pa.Table:
        if self._errors:
            raise self._errors.pop(0)
        return self._master.read(pages, columns)  # type: ignore[arg-type]


def flaky(master: Path, paused: list[float], *errors: MasterError) -> TimedReads:
    opened = Flaky(reference(master).open(), list(errors))
    return TimedReads(opened, Patience(sleep=paused.append))  # type: ignore[arg-type]


def test_reads_are_tried_again(master: Path) -> None:
    paused: list[float] = []
    reads = flaky(master, paused, MasterError("1"), MasterError("2"))
    assert reads.read([0], ["sku"]).num_rows > 0
    assert (reads.failures, paused) == (2, [0.1, 0.4])
    assert reads.latest_micros <= reads.total_micros
    reads = flaky(master, paused, *[MasterError(str(i)) for i in range(3)])
    with pytest.raises(MasterError, match="2"):
        reads.read([0], ["sku"])
    reads = flaky(master, paused, CorruptMasterError("bad page"))
    with pytest.raises(CorruptMasterError):
        reads.read([0], ["sku"])
    assert reads.failures == 1


def test_a_server_that_is_away_is_waited_for(
    master: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, paused = [0.0], []

    def sleep(seconds: float) -> None:
        paused.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("penstock.spark.timed_reads.time.monotonic", lambda: now[0])
    away = [ServerAwayError("the server db is away.") for _ in range(8)]
    opened = Flaky(reference(master).open(), list(away))
    reads = TimedReads(opened, Patience(60.0, sleep))  # type: ignore[arg-type]
    assert reads.read([0], ["sku"]).num_rows > 0
    assert reads.failures == len(paused) == 8
    assert all(before * 0.9 < after * 2 for before, after in pairwise(paused))
    assert max(paused) <= 5.0
    assert caplog.messages[0] == "the server db is away. Trying again for 60 s."
    assert len(caplog.records) == 2, "one line when it goes and one when it is back"
    caplog.clear()
    lost = Flaky(reference(master).open(), [ServerAwayError("db is away.")])
    TimedReads(lost, Patience(60.0, sleep)).read([0], ["sku"])  # type: ignore[arg-type]
    assert caplog.messages == [], "a connection that was only lost is made again"
    now[0] = 0.0
    opened = Flaky(reference(master).open(), [ServerAwayError("db is away.") for _ in range(99)])
    with pytest.raises(ServerAwayError, match=r"db is away\. It was tried \d+ times in \d+ s"):
        TimedReads(opened, Patience(10.0, sleep)).read([0], ["sku"])  # type: ignore[arg-type]
    assert 5 <= now[0] <= 10
