"""The commands, put together. What a command needs is imported when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.bench import app as bench
from penstock.cli.bench_spark import EXAMPLES as BENCH_SPARK_EXAMPLES
from penstock.cli.bench_spark import HELP as BENCH_SPARK_HELP
from penstock.cli.bench_spark import spark as bench_spark
from penstock.cli.calibrate import EXAMPLES as CALIBRATE_EXAMPLES
from penstock.cli.calibrate import HELP as CALIBRATE_HELP
from penstock.cli.calibrate import calibrate
from penstock.cli.demo import EXAMPLES as DEMO_EXAMPLES
from penstock.cli.demo import HELP as DEMO_HELP
from penstock.cli.demo import demo
from penstock.cli.doctor import EXAMPLES as DOCTOR_EXAMPLES
from penstock.cli.doctor import HELP as DOCTOR_HELP
from penstock.cli.doctor import doctor
from penstock.cli.master import app as master
from penstock.cli.plan import EXAMPLES as PLAN_EXAMPLES
from penstock.cli.plan import HELP as PLAN_HELP
from penstock.cli.plan import plan
from penstock.cli.reproduce import EXAMPLES as REPRODUCE_EXAMPLES
from penstock.cli.reproduce import HELP as REPRODUCE_HELP
from penstock.cli.reproduce import reproduce
from penstock.cli.run import INIT_HELP, RUN_HELP, init, run
from penstock.cli.tune import EXAMPLES as TUNE_EXAMPLES
from penstock.cli.tune import HELP as TUNE_HELP
from penstock.cli.tune import tune

app = typer.Typer(
    name="penstock",
    help="Join a fast stream with a table too big for memory, inside a fixed number of bytes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo", help=DEMO_HELP, epilog=DEMO_EXAMPLES)(demo)
app.command("init", help=INIT_HELP)(init)
app.command("run", help=RUN_HELP)(run)
app.command("doctor", help=DOCTOR_HELP, epilog=DOCTOR_EXAMPLES)(doctor)
app.add_typer(master, name="master")
app.command("calibrate", help=CALIBRATE_HELP, epilog=CALIBRATE_EXAMPLES)(calibrate)
app.command("plan", help=PLAN_HELP, epilog=PLAN_EXAMPLES)(plan)
app.command("tune", help=TUNE_HELP, epilog=TUNE_EXAMPLES)(tune)
app.add_typer(bench, name="bench")
app.command("reproduce", help=REPRODUCE_HELP, epilog=REPRODUCE_EXAMPLES)(reproduce)
bench.command("spark", help=BENCH_SPARK_HELP, epilog=BENCH_SPARK_EXAMPLES)(bench_spark)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass
