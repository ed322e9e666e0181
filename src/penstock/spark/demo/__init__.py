"""What `penstock demo` does: sales stream through Spark, are enriched, land in a warehouse table.

| module | what it has |
| --- | --- |
| `plan` | how large everything is, and what the rows are |
| `place` | the folder in which a demo lives, so that an interrupted one goes on |
| `running` | the demo from outside: makes the products, watches the process that runs Spark |
| `compiling` | compiles what workers will need, while Spark starts |
| `worker` | that process |
| `pipeline` | the streaming query, one report per micro-batch |
| `proof` | the warehouse table against a plain join |
| `costs` | what was held and read, and what it would have been otherwise |

Spark runs in a process of its own, which has a session of its own: whatever it or the JVM writes
goes to a log, no Ctrl-C reaches it, and it is ended as a whole, at any moment; what is in the
checkpoint then decides where the next run goes on.
"""
