"""Settings for a Java that is up sooner: tests give it too little to do for more to pay."""

from __future__ import annotations

_OPTIONS = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    # Spark's classes need not be proved sound anew in each process.
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
QUICK_JAVA = {
    "spark.driver.defaultJavaOptions": _OPTIONS,
    "spark.executor.defaultJavaOptions": _OPTIONS,
}
