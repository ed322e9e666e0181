"""What `penstock doctor` looks at, without starting Spark unless it is asked to.

| module | what it has |
| --- | --- |
| `findings` | what a check says: ok, warn or fail, and what to do |
| `programs` | Python, Java, Spark, Arrow, pandas |
| `settings` | Spark's settings, from `spark-defaults.conf` and what is given |
| `machine` | reads past the kernel's cache, temporary folders, memory, the machine's name |
| `trial` | one row through `enrich` in a Spark of its own |
"""

from penstock.spark.doctor.findings import Finding
from penstock.spark.doctor.machine import machine_findings
from penstock.spark.doctor.programs import program_findings
from penstock.spark.doctor.settings import read_settings, setting_findings
from penstock.spark.doctor.trial import trial_finding

__all__ = [
    "Finding",
    "machine_findings",
    "program_findings",
    "read_settings",
    "setting_findings",
    "trial_finding",
]
