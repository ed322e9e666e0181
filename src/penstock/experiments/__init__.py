"""The papers' figures and claims, run again and judged; `penstock reproduce` on the command line.

| module | what it has |
| --- | --- |
| `papers` | the papers that are judged, and ourselves |
| `figures/` | each figure as a data file: case, axes, series, expected shape |
| `figure`, `scale` | such a file as an object, and how it is made smaller |
| `case`, `counting`, `price`, `intervals` | one point: what is run, counted, priced, measured |
| `job`, `kinds/` | the runs that a figure needs, and the lines that follow from them |
| `models` | what the papers' equations say of a point |
| `theorems`, `page_log` | the two theorems on HYBRIDJOIN, looked for in reads that joins make |
| `rivals/`, `rival_runs` | what people use instead, run beside the joins |
| `shapes/`, `verdicts`, `quantities` | whether a figure shows what its paper claims, in words |
| `workplace`, `running`, `reproducing`, `result_files` | all points, once each, in files |
| `report/` | one page with all of it, and drawings for the documentation |
"""
