"""One row through `enrich`, in a Spark that is started for it.

As a program (`python -m penstock.spark.doctor.trial`) it starts the Spark, reads settings as JSON
on standard input and says the result as JSON on standard output. It is a process of its own, so
that what Spark writes does not get onto the screen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from penstock.spark.doctor.findings import Finding

_MOST_SECONDS = 180


def trial_finding(settings: Mapping[str, str]) -> Finding:
    """Start a Spark with these settings, enrich one row, and say how that went."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-doctor-") as folder:
        log = Path(folder) / "spark.log"
        with log.open("w") as errors:
            trial = subprocess.Popen(
                [sys.executable, "-m", "penstock.spark.doctor.trial", folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        try:
            said, _ = trial.communicate(json.dumps(dict(settings)), timeout=_MOST_SECONDS)
        except subprocess.TimeoutExpired:
            said = ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(trial.pid, signal.SIGKILL)
            trial.wait()
        if trial.returncode == 0:
            rows = json.loads(said)["rows"]
            seconds = time.monotonic() - began
            return Finding("one row", "ok", f"{rows} through enrich, in {seconds:.0f} s")
        kept = Path(tempfile.gettempdir()) / f"penstock-doctor-{os.getpid()}.log"
        kept.write_text(log.read_text(errors="replace"))
    return Finding(
        "one row",
        "fail",
        _last_words(kept.read_text()) or f"nothing came in {_MOST_SECONDS} s",
        f"All that Spark said is in {kept}.",
    )


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def main() -> None:
    folder = Path(sys.argv[1])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # or the JVM would write between our words

    import pyarrow as pa

    from penstock.masters import MemoryMaster
    from penstock.spark.enrich import enrich
    from penstock.spark.session import local_session

    settings = json.load(sys.stdin)
    spark = local_session("penstock doctor", cores=1, directory=folder, settings=settings)
    products = pa.table({"product_id": [6, 7, 8], "price": [0.6, 0.7, 0.8]})
    sales = spark.range(7, 8).withColumnRenamed("id", "product_id")
    found = enrich(sales, master=MemoryMaster(products, key="product_id"), on="product_id")
    rows = [row.asDict() for row in found.collect()]
    if rows != [{"product_id": 7, "price": 0.7}]:
        raise SystemExit(f"wrong rows: {rows}")
    out.write(json.dumps({"rows": len(rows)}))
    out.close()
    spark.stop()


if __name__ == "__main__":
    main()
