"""The papers' figures and claims, run again and judged; `penstock reproduce` on the command line.

| module | what it has |
| --- | --- |
| `papers` | the papers that are judged, and ourselves |
| `figures/` | each figure as a data file: case, axes, series, expected shape |
| `figure`, `scale` | such a file as an object, and how it is made smaller |
| `case`, `counting`, `price`, `intervals` | one point: what is run, counted, priced, measured |
| `models` | what the papers' equations say of a point |
| `arrivals`, `page_use`, `read_times`, `generators`, `theorems` | figures that are no rates |
| `shapes`, `verdicts` | whether a figure shows what its paper claims |
| `running`, `reproducing` | all points of all figures, once each, resumable |
| `report`, `plots` | one page with all of it, and drawings for the documentation |
"""
