"""What a person is told of all that Spark says when a query fails."""

from __future__ import annotations

import pytest

from penstock.pipeline.running import _reason

PROXY = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent):
  File "clientserver.py", line 644, in _call_proxy
    raise Py4JJavaError(
"""
JAVA = (
    PROXY
    + """py4j.protocol.Py4JJavaError: An error occurred while calling o65.parquet.
: org.apache.spark.SparkException: Job aborted: Task 0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3318)
"""
)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            JAVA + "Caused by: java.io.IOException: No space left on device\n\tat java.base/…\n",
            "java.io.IOException: No space left on device",
        ),
        (
            JAVA + "Caused by: a.b.BadError: The header is not right.\n Header: b, a\n Schema: a, b"
            "\n\tat java.base/…\n\t... 3 more\n",
            "a.b.BadError: The header is not right. Header: b, a Schema: a, b",
        ),
        (
            JAVA,
            "org.apache.spark.SparkException: Job aborted: Task 0 failed 4 times",
        ),
        (PROXY + "KeyError: 'price'\n", "KeyError: 'price'"),
        (
            JAVA + "penstock.errors.MasterError: postgresql://db/shop table r: gone.\n",
            "postgresql://db/shop table r: gone.",
        ),
        ("[STREAM_FAILED] Query terminated", "[STREAM_FAILED] Query terminated"),
        ("", "the query ended by an error"),
    ],
)
def test_the_cause_is_told(said: str, told: str) -> None:
    assert _reason(said) == told
