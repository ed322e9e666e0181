from __future__ import annotations

import json
import os
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.bench import BenchError, JoinCase
from penstock.bench.feed import Feed, send_rows


class Pipe:
    """A feed and the thread that answers it."""

    def __init__(self, case: JoinCase, rows_sent: int) -> None:
        self.asked: list[list[int]] = []
        source, target = os.pipe()
        self._case, self._rows_sent, self._target = case, rows_sent, target
        self._requests, ask = os.pipe()
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()
        self._ask = os.fdopen(ask, "w")
        self.feed = Feed(case.workload().schema, case.stream, case.chunk_rows, self._send, source)
        self._source = source

    def _send(self, message: dict[str, list[int]]) -> None:
        self._ask.write(json.dumps(message) + "\n")
        self._ask.flush()

    def _answer(self) -> None:
        workload = self._case.workload()
        with os.fdopen(self._requests) as requests, os.fdopen(self._target, "wb") as answers:
            for line in requests:
                start, stop = json.loads(line)["rows"]
                self.asked.append([start, stop])
                if stop > self._rows_sent:
                    return
                send_rows(answers, workload.rows(start, stop))

    def close(self) -> None:
        self._ask.close()
        self._thread.join()
        os.close(self._source)


@pytest.fixture
def chunky(case: JoinCase) -> JoinCase:
    return replace(case, stream=2_500_000, batch_rows=400_000)


@pytest.mark.parametrize("prepared", [False, True])
def test_all_rows_come_in_order_and_once(chunky: JoinCase, prepared: bool) -> None:
    pipe = Pipe(chunky, chunky.stream)
    if prepared:
        pipe.feed.prepare()
        assert pipe.asked == [[0, 800_000]]
    batches = list(pipe.feed.batches(chunky.batch_rows))
    pipe.close()
    assert [b.num_rows for b in batches] == [400_000] * 6 + [100_000]
    whole = pa.Table.from_batches(batches).combine_chunks()
    assert whole.to_batches()[0] == chunky.workload().rows(0, chunky.stream)
    assert pipe.asked == [
        [0, 800_000],
        [800_000, 1_600_000],
        [1_600_000, 2_400_000],
        [2_400_000, 2_500_000],
    ]


def test_rows_of_an_old_chunk_stay_what_they_were(chunky: JoinCase) -> None:
    pipe = Pipe(chunky, chunky.stream)
    chunks = pipe.feed.chunks()
    kept = next(chunks).slice(10, 20)
    next(chunks)
    pipe.close()
    assert kept == chunky.workload().rows(10, 30)


def test_a_feeder_that_ends_is_an_error(chunky: JoinCase) -> None:
    pipe = Pipe(chunky, rows_sent=800_000)
    chunks = pipe.feed.chunks()
    assert next(chunks).num_rows == 800_000
    with pytest.raises(BenchError, match="has ended"):
        next(chunks)
    pipe.close()
