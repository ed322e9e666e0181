"""The report: one page with verdicts and plots, and drawings for the documentation.

| module | what it has |
| --- | --- |
| `page`, `head`, `verdict_table`, `figure_sections` | the page, part by part |
| `plots` | what is drawn of a figure, as a Vega-Lite specification, and as a PNG |
| `series_plots`, `heat_maps` | lines and bars; surfaces |
| `plot_axes`, `plot_theme`, `series_look` | axes, colours, how a series looks in all figures |
"""

from penstock.experiments.report.page import write_report
from penstock.experiments.report.plots import drawing_package, plot_spec, write_png

__all__ = ["drawing_package", "plot_spec", "write_png", "write_report"]
