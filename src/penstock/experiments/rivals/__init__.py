"""What people use instead of a semi-stream join, driven like one and measured beside it.

| module | what it has |
| --- | --- |
| `base` | what every rival promises, and what it is opened with |
| `lru_lookup`, `lru_cache`, `lru_entries` | a batched look-up with a cache, in a number of bytes |
| `page_lookups`, `sqlite_lookups` | where such a look-up finds its rows |
| `whole_master` | all of R in memory, and what that holds |
| `with_arrow`, `with_polars`, `with_duckdb` | the joins of such an R |
| `naming` | the rivals by name |
"""

from penstock.experiments.rivals.base import Rival
from penstock.experiments.rivals.naming import RIVALS, TITLES, open_rival

__all__ = ["RIVALS", "TITLES", "Rival", "open_rival"]
