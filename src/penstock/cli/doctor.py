"""`penstock doctor`: whether Penstock on Spark can work here, line by line."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import OutputFormat, print_json, text_console

if TYPE_CHECKING:
    from penstock.spark.doctor import Finding

HELP = """
Look whether Penstock on Spark can work here: Java, Spark, Arrow, settings, disk and memory.

Each line is [bold]ok[/bold], [bold]warn[/bold] (works less well, or only in part) or \
[bold]fail[/bold], with what to do. Ends with 1 if a line says fail.

No Spark is started: settings are those of spark-defaults.conf and of --conf. With --start a local \
Spark is, and one row goes through enrich.
"""
EXAMPLES = """
[bold]Examples[/bold]

    penstock doctor

On the disk where masters will be, with a setting that spark-submit gets:

    penstock doctor --dir /data --conf spark.local.dir=/scratch

Start a Spark and enrich one row, for a program to read:

    penstock doctor --start --output json
"""


def doctor(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="PATH",
            help="A folder on the disk where masters will be. (default: this one)",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of your Spark session. Repeat it."),
    ] = None,
    start: Annotated[
        bool, typer.Option("--start", help="Start a Spark here, and enrich one row.")
    ] = False,
    output: Annotated[
        OutputFormat, typer.Option(metavar="FORMAT", help="text for people, json for programs.")
    ] = OutputFormat.text,
) -> None:
    from penstock.spark import doctor as checks

    given = dict(_setting(text) for text in conf or [])
    settings = checks.read_settings(given)
    findings = [
        *checks.program_findings(),
        *checks.setting_findings(settings),
        *checks.machine_findings(directory or Path.cwd(), settings),
    ]
    broken = any(found.verdict == "fail" for found in findings)
    if start and not broken:
        findings.append(checks.trial_finding(given))
    if output is OutputFormat.json:
        print_json([asdict(found) for found in findings])
    else:
        _print(findings, skipped=start and broken)
    if any(found.verdict == "fail" for found in findings):
        raise typer.Exit(1)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise typer.BadParameter(
            f"{text!r} is no setting; write --conf spark.local.dir=/scratch.",
            param_hint="'--conf'",
        )
    return name.strip(), value.strip()


_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def _print(findings: list[Finding], *, skipped: bool) -> None:
    from textwrap import wrap

    from rich.text import Text

    console = text_console()
    indent = 8 + max(len(found.name) for found in findings)
    for found in findings:
        # A setting is longer than a line: left whole, so that it can be copied.
        texts = [
            line
            for text in (found.found, found.advice)
            for line in wrap(text, max(20, console.width - indent), break_long_words=False)
        ]
        head = Text(f"{found.verdict:<6}", _STYLES[found.verdict])
        head.append(f"{found.name:<{indent - 6}}", "bold")
        for line in texts:
            console.print(Text.assemble(head, (line, "")), soft_wrap=True)
            head = Text(" " * indent)
    if skipped:
        console.print("\nSpark was not started, since something fails already.")
    counts = {v: sum(f.verdict == v for f in findings) for v in _STYLES}
    if counts["fail"]:
        console.print(f"\n{counts['fail']} to repair, {counts['warn']} to look at.")
    elif counts["warn"]:
        console.print(f"\nNothing to repair, {counts['warn']} to look at.")
    else:
        console.print("\nNothing to repair.")
