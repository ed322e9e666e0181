"""The process that runs Spark for a demo: `python -m penstock.spark.demo.worker`.

On standard input it gets a line with the folder, and a second line when the products are there.
When standard input ends, whoever began it is gone, and it ends itself and the JVM at once. On
standard output it says lines of JSON, each with a `kind`: `spark` (the session is up), `batch`,
`proving`, `proved`, `failed`. Standard error is a log.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Say = Callable[..., None]


def main() -> None:
    say = _voice()
    folder = Path(json.loads(sys.stdin.readline())["folder"])
    ready = threading.Event()
    threading.Thread(target=_listen, args=(ready,), daemon=True).start()
    try:
        _run(folder, ready, say)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be told
        import traceback

        traceback.print_exc()
        say("failed", reason=reason(error))
        sys.stderr.flush()
        os._exit(1)  # a JVM that is half dead must not keep this process


def _voice() -> Say:
    """What writes to the standard output that this process began with; the JVM gets the log's."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(kind: str, **what: Any) -> None:
        out.write(json.dumps({"kind": kind, **what}) + "\n")

    return say


def _listen(ready: threading.Event) -> None:
    for _ in sys.stdin:
        ready.set()
    os.killpg(0, signal.SIGKILL)  # the JVM is in this process group


def _run(folder: Path, ready: threading.Event, say: Say) -> None:
    import pyspark

    from penstock.spark.demo import pipeline
    from penstock.spark.demo.place import Place
    from penstock.spark.demo.proof import prove
    from penstock.spark.session import local_session

    place = Place(folder)
    plan = place.kept_plan()
    assert plan is not None
    spark = local_session("penstock demo", cores=plan.workers, directory=place.spark)
    say("spark", version=pyspark.__version__)
    ready.wait()
    resumed = pipeline.position(place)
    query = pipeline.start(pipeline.enriched_sales(spark, plan, place), place)
    say("streaming", row=resumed)
    if resumed >= plan.sales:
        query.processAllAvailable()
    else:
        for report in pipeline.micro_batches(query, plan):
            place.note(report)
            say("batch", **report)
    query.stop()
    files = pipeline.warehouse_files(spark, place)
    place.sweep(set(files))
    spark.stop()
    say("proving", row=0)
    proof = prove(files, plan, lambda rows: say("proving", row=rows))
    nbytes = sum(file.stat().st_size for file in files)
    say(
        "proved",
        rows=proof.rows,
        unmatched=proof.unmatched,
        table_bytes=proof.table_bytes,
        files=len(files),
        warehouse_bytes=nbytes,
    )


def reason(error: BaseException) -> str:
    """One line that tells most: what Python said last, if Spark has wrapped it."""
    text = str(error).strip() or type(error).__name__
    said = re.findall(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", text, re.MULTILINE)
    if said and "Traceback" in text:
        kind, what = said[-1]
        return f"{kind}: {what}"[:500]
    if "No space left on device" in text:
        return "No space left on device"
    return text.splitlines()[0][:500]


if __name__ == "__main__":
    main()
