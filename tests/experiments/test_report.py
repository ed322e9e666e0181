from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import MissingPackageError
from penstock.experiments.report.page import write_report
from penstock.experiments.report.plot_theme import theme

vl_convert = pytest.importorskip("vl_convert")

Result = dict[str, Any]
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements, texts by the element they are in, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts.append((self.elements[-1][1], data))
        elif self._open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str, style: str = "") -> list[dict[str, str]]:
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and style in attributes.get("class", "")
        ]

    @property
    def data(self) -> dict[str, Any]:
        found = [text for attributes, text in self.scripts if attributes.get("id") == "plots"]
        return dict(json.loads("".join(found)))


@pytest.fixture(scope="module")
def library() -> str:
    return str(vl_convert.javascript_bundle())


@pytest.fixture
def html(made_up: dict[str, Result], tmp_path: Path) -> str:
    target = tmp_path / "of" / "report.html"
    write_report(list(made_up.values()), target)
    return target.read_text(encoding="utf-8")


@pytest.fixture
def page(html: str) -> Page:
    return Page(html)


def test_it_loads_nothing(page: Page, html: str, library: str) -> None:
    for _, attributes in page.elements:
        assert not {"src", "srcset", "action", "data", "poster", "background"} & attributes.keys()
        assert attributes.get("href", "#").startswith("#")
    assert page.all("link") == []
    ours = html.replace(library, "")
    assert len(ours) < len(html) - 500_000
    assert not re.search(r"https?://|url\(|@import|\bimport\(|\bfetch\(", ours)
    assert "default-src 'none'" in ours


def test_ids_are_unique_and_links_lead_to_them(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        assert attributes.get("href", "#plots")[1:] in ids
        for name in ("aria-labelledby", "for"):
            assert set(attributes.get(name, "").split()) <= set(ids)


def test_every_verdict_is_in_the_table_and_at_its_figure(
    page: Page, made_up: dict[str, Result]
) -> None:
    verdicts = [verdict for result in made_up.values() for verdict in result["verdicts"]]
    rows = [row for row in page.all("tr") if "data-verdict" in row]
    assert len(rows) == len(verdicts)
    for verdict in verdicts:
        assert {
            "id": f"verdict-{verdict['id']}",
            "data-paper": verdict["paper"],
            "data-verdict": verdict["verdict"],
        } in rows
        assert page.text.count(" ".join(verdict["claim"].split())) >= 2
        assert page.text.count(" ".join(verdict["said"].split())) >= 2


def test_the_headline_counts(page: Page) -> None:
    assert "5 claims in 6 figures." in page.text
    for counted in (
        "2 reproduced",
        "1 reproduced with a condition",
        "1 not reproduced",
        "1 not judged",
    ):
        assert counted in page.text


def test_verdicts_are_words_in_a_colour(page: Page) -> None:
    assert page.text.count("not reproduced") >= 3
    styles = {span["class"] for span in page.all("span", "verdict")}
    assert styles == {
        "verdict reproduced",
        "verdict with-a-condition",
        "verdict not-reproduced",
        "verdict not-judged",
    }


def test_texts_of_files_are_texts(page: Page, html: str) -> None:
    assert "<b>not bold</b> & so on" in page.text
    assert 'Orders of R: <img src="x"> & "others"' in page.text
    assert "A processor <of 2 cores>" in page.text
    assert page.all("img") == []
    assert page.all("b") == []
    figure = page.data["figures"]["p-orders"][0]
    assert "</script><b>hot & drifting</b>" in {
        row["x"] for row in figure["spec"]["data"]["values"]
    }
    assert html.count("</script>") == 3


def test_a_figure_has_its_quantities_and_one_place_for_plots(
    page: Page, made_up: dict[str, Result]
) -> None:
    assert {place["data-figure"] for place in page.all("div", "plot")} == {
        result["id"] for result in made_up.values()
    }
    figures = page.data["figures"]
    assert [plot["name"] for plot in figures["000-6a"]] == [
        "stream_rows_per_read",
        "rows_per_second",
        "wait_rows_p50",
    ]
    buttons = [button["data-quantity"] for button in page.all("button")]
    assert len(buttons) == sum(map(len, figures.values()))


@pytest.mark.parametrize("dark", [False, True])
def test_every_plot_of_the_page_compiles_with_its_theme(page: Page, dark: bool) -> None:
    assert page.data["themes"]["dark" if dark else "light"] == theme(dark=dark)
    for plots in page.data["figures"].values():
        for plot in plots:
            spec = {**plot["spec"], "config": theme(dark=dark)}
            assert vl_convert.vegalite_to_vega(spec)["marks"]
            fields = set(plot["titles"])
            assert all(fields <= row.keys() for row in plot["spec"]["data"]["values"])


def test_papers_and_figures_are_in_order(page: Page) -> None:
    papers = [heading["id"] for heading in page.all("h2") if heading["id"].startswith("paper-")]
    assert papers == [
        "paper-tuned-x-hybridjoin",
        "paper-frequent-pages",
        "paper-hybridjoin",
        "paper-penstock",
    ]
    figures = [section["id"] for section in page.all("section", "figure")]
    assert figures[:2] == ["figure-000-3", "figure-000-6a"]


def test_where_the_numbers_come_from(page: Page) -> None:
    for words in ("scale small", "2026-01-02 03:04", "0123456789ab", "8.0 GiB", "numpy 2.1"):
        assert words in page.text


def test_several_machines_and_a_commit_that_is_not_known(
    made_up: dict[str, Result], tmp_path: Path
) -> None:
    made_up["rates"]["machine"] = {"processor": "Another one", "cores": 64}
    made_up["rates"]["commit"] = None
    made_up["queues"]["commit"] += "-dirty"
    write_report(list(made_up.values()), tmp_path / "r.html")
    text = Page((tmp_path / "r.html").read_text()).text
    assert "Another one" in text
    assert "A processor <of 2 cores>" in text
    assert "unknown" in text
    assert "0123456789ab-dirty" in text


def test_figures_without_numbers_verdicts_or_a_known_paper(
    made_up: dict[str, Result], tmp_path: Path
) -> None:
    bare = {**made_up["queues"], "rows": [], "verdicts": [], "panels": [], "paper": "a new one"}
    write_report([bare], tmp_path / "bare.html")
    page = Page((tmp_path / "bare.html").read_text())
    assert "0 claims in 1 figure." in page.text
    assert "No claim has been judged." in page.text
    assert "There is no number to draw." in page.text
    assert "paper-a-new-one" in {heading["id"] for heading in page.all("h2")}


def test_no_results_are_a_page_too(tmp_path: Path) -> None:
    write_report([], tmp_path / "none.html")
    assert "0 claims in 0 figures." in Page((tmp_path / "none.html").read_text()).text


def test_without_the_package_it_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'penstock\[experiments\]'"):
        write_report([], tmp_path / "none.html")
