"""Colours and sizes of everything in a plot but its series, on a white and on a dark page."""

from __future__ import annotations

from typing import Any

_FONT = "Verdana, 'DejaVu Sans', 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def theme(*, dark: bool) -> dict[str, Any]:
    """A configuration of Vega-Lite."""
    ink, faint, line = (
        ("#e8e8e8", "#adb3bb", "#3a4049") if dark else ("#1c1e21", "#50565e", "#dde0e4")
    )
    titles = {"titleColor": ink, "titleFontSize": 12, "titleFontWeight": "normal", "titleLimit": 0}
    return {
        "background": None if dark else "white",
        "font": _FONT,
        "axis": {
            **titles,
            "labelColor": faint,
            "labelFontSize": 11,
            "gridColor": line,
            "domainColor": faint,
            "tickColor": faint,
            "titlePadding": 8,
        },
        "legend": {
            **titles,
            "labelColor": ink,
            "labelFontSize": 12,
            "labelLimit": 0,
            "symbolSize": 70,
            "symbolStrokeWidth": 2,
        },
        "header": {"labelColor": ink, "labelFontSize": 12, "labelFontWeight": "bold"},
        "title": {"color": ink, "fontSize": 14, "anchor": "start", "offset": 10, "limit": 0},
        "view": {"stroke": line},
    }
