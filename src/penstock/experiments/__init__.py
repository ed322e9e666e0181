"""The papers' figures and claims, run again and judged; `penstock reproduce` on the command line.

| module | what it has |
| --- | --- |
| `papers` | the papers that are judged, and ourselves |
| `figures/` | each figure as a data file: case, axes, series, expected shape |
| `figure`, `scale` | such a file as an object, and how it is made smaller |
| `case`, `counting`, `price`, `intervals` | one point: what is run, counted, priced, measured |
| `job`, `grid`, `kinds` | the runs that a figure needs, and its lines; figures of rates |
| `models` | what the papers' equations say of a point |
| `optima`, `arrivals`, `page_use`, `read_times`, `spark_runs` | figures of other kinds |
| `sales_by_rank`, `burstiness`, `theorem_runs` | and those of the generator and the theorems |
| `rivals/`, `rival_runs` | what people use instead, run beside the joins |
| `shapes`, `verdicts` | whether a figure shows what its paper claims |
| `running`, `reproducing` | all points of all figures, once each, resumable |
| `report`, `plots` | one page with all of it, and drawings for the documentation |
"""
