"""`dpublish demo`: the whole road from a private table to answers, on a made-up hospital."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpublish.cli import screen
from dpublish.cli.options import Json, asks
from dpublish.errors import InputError, PublishError

if TYPE_CHECKING:
    import polars as pl

    from dpublish.requests.docs import Page, Pages

TRAINING = ("age", "ward", "emergency", "stay_days", "readmitted")
QUESTIONS = (
    "emergency = true",
    "age >= 65 and ward = 'Cardiology'",
    "readmitted = true and stay_days >= 7",
    "ward in ('Maternity', 'Paediatrics') and emergency = false",
)
MADE = {
    "hospital.csv": "the private table (invented here; never publish yours)",
    "hospital.toml": "the schema, written by hand",
    "hospital.ledger": "the budget: what was paid, for what",
    "hospital.dpr": "the release: publish this one",
    "months.dpr": "the second release",
    "report.html": "a report about the release, for people",
    "hospital.html": "the release as a page: open it in a browser and ask",
    "wards.png": "visits by ward, with error bars",
    "age-ward.png": "visits by age and ward",
    "synthetic.csv": "synthetic rows drawn from the release",
}
"""What the demo leaves in the folder, and what an earlier one left. Nothing else is touched."""


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to put everything.")
    ] = Path("dpublish-demo"),
    json: Json = False,
) -> None:
    """Publish, query, learn from and verify a made-up hospital table. Takes about a minute and
    explains each step."""
    _clear(out)
    quiet = contextlib.redirect_stdout(io.StringIO()) if json else contextlib.nullcontext()
    with quiet, _inside(out):
        summary = _Tour().run()
    if json:
        screen.write_json({"folder": out.resolve(), **summary})


class _Tour:
    """Runs the program's own commands, so that what it shows is what a reader gets by typing the
    same."""

    _step = 0

    def run(self) -> dict[str, Any]:
        from dpublish.cli.hospital import write_hospital

        self._title("A private table and what may be known about it without looking")
        rows, held_out = write_hospital(Path())
        screen.say(
            "hospital.csv holds about twenty thousand visits of invented patients: dates, "
            "numbers, labels, missing values and "
            "slips of the pen. hospital.toml was written by hand; nothing in it was read off the "
            "rows."
        )
        self._command("schema", "show", "hospital.toml")

        self._title("A budget for life, and a plan that needs no data")
        self._command("ledger", "open", "hospital.ledger", "--epsilon", "2")
        first = (
            "--schema",
            "hospital.toml",
            "--method",
            "histogram",
            "--set",
            f"columns={','.join(TRAINING)}",
            "--epsilon",
            "1",
        )
        self._command("plan", *first)

        self._title("Release: pay first, then read the rows")
        self._command(
            "release",
            "hospital.csv",
            *first,
            "--ledger",
            "hospital.ledger",
            "--out",
            "hospital.dpr",
            "--key",
            "tour-1",
        )
        self._command("verify", "hospital.dpr", "--ledger", "hospital.ledger")

        self._title("Ask, with error bars")
        self._command("query", "hospital.dpr", *QUESTIONS)
        covered = self._against_truth(rows)
        self._command(
            "sql",
            "hospital.dpr",
            "select ward, count(*) as visits, avg(stay_days) as days from release group by "
            "ward order by visits desc",
        )

        self._title("Learn")
        scores = self._learn(rows, held_out)

        self._title("Look")
        self._plots()
        self._command("report", "hospital.dpr", "--out", "report.html")
        self._command("page", "hospital.dpr", "--out", "hospital.html")
        self._command(
            "export", "hospital.dpr", "--to", "csv", "--synthetic", "--out", "synthetic.csv"
        )

        self._title("The budget runs out")
        months = (
            "hospital.csv",
            "--schema",
            "hospital.toml",
            "--ledger",
            "hospital.ledger",
            "--out",
        )
        self._command(
            "release",
            *months,
            "months.dpr",
            "--set",
            "columns=admitted,emergency",
            "--epsilon",
            "0.5",
            "--key",
            "tour-2",
        )
        self._command("query", "months.dpr", "--by", "admitted")
        self._command(
            "release",
            *months,
            "pressure.dpr",
            "--set",
            "columns=admitted,systolic",
            "--epsilon",
            "1",
            expect=3,
        )
        self._command("ledger", "history", "hospital.ledger")
        self._finish()
        return {
            "files": sorted(path.name for path in Path().iterdir()),
            "auc": scores,
            "covered": covered,
            "refused": True,
        }

    def _against_truth(self, rows: pl.DataFrame) -> int:
        """The true answers beside the estimates. These rows are made up; nobody may do this with
        real ones."""
        screen.say(
            "Because these patients are invented, this demo may do what nobody may do with real "
            "rows: show the truth beside "
            "the estimate. Doing so for real data, even once, would publish it without protection.",
            style="yellow",
        )
        lines, covered = [], 0
        for question, truth in _true_counts(rows).items():
            estimate = self._release.estimate(question)
            inside = estimate.low <= truth <= estimate.high
            covered += inside
            lines.append(
                (
                    question,
                    f"{estimate.value:,.0f}",
                    f"{estimate.low:,.0f} to {estimate.high:,.0f}",
                    f"{truth:,}",
                    "yes" if inside else "no",
                )
            )
        screen.grid(
            ["condition", "estimate", "95% interval", "truth (demo only)", "inside"],
            lines,
            right=(1, 2, 3),
        )
        return covered

    @functools.cached_property
    def _release(self) -> Any:
        from dpublish.releases.base import open_release

        return open_release("hospital.dpr")

    def _learn(self, rows: pl.DataFrame, held_out: pl.DataFrame) -> dict[str, float]:
        if not self._has("sklearn", "learn"):
            return {}
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score

        screen.say(
            "A scikit-learn model is trained on the release alone, then tried on visits of other "
            "patients. "
            "In Python: open_release('hospital.dpr').fit(LogisticRegression(), "
            "target='readmitted')",
        )
        model = self._release.fit(LogisticRegression(max_iter=1000), target="readmitted")
        answer = (held_out["readmitted"] == "yes").to_numpy()
        positive = [str(label).lower() for label in model.classes_].index("true")
        chances = model.predict_proba(held_out.drop("readmitted"))[:, positive]
        private = float(roc_auc_score(answer, chances))
        reference = _reference_auc(rows, held_out)
        screen.grid(
            ["trained on", "AUC on held-out visits"],
            [
                ("the release, epsilon = 1", f"{private:.3f}"),
                ("the private rows (demo only)", f"{reference:.3f}"),
            ],
            right=(1,),
        )
        return {"release": round(private, 4), "private_rows": round(reference, 4)}

    def _plots(self) -> None:
        if not self._has("matplotlib", "plots"):
            return
        for columns, name in ((("ward",), "wards.png"), (("age", "ward"), "age-ward.png")):
            self._release.plot(*columns).savefig(name, dpi=150, bbox_inches="tight")
            screen.say(f"Drew {name}")

    def _finish(self) -> None:
        self._title("Where everything is")
        screen.facts((name, text) for name, text in MADE.items() if Path(name).exists())
        screen.say(
            "Next: dpublish docs tutorial. To ask the release without Python, open in a browser:"
        )
        screen.say(str(Path.cwd() / "hospital.html"), style="bold")

    def _command(self, *words: str, expect: int = 0) -> None:
        from rich.text import Text

        from dpublish.cli.app import INTERRUPTED, run

        line = " ".join(word if _plain(word) else f'"{word}"' for word in words)
        screen.console().print(Text(f"\n$ dpublish {line}", style="bold cyan"), soft_wrap=True)
        failure = io.StringIO()
        with contextlib.redirect_stderr(failure):
            code = run(words)
        if text := failure.getvalue().strip():
            screen.say(text, style="red" if code else "yellow")
        if code == INTERRUPTED:  # the command has caught it, and with it the tour should end
            raise KeyboardInterrupt
        if code != expect:
            raise PublishError(
                f"The demo expected exit code {expect} here and got {code}. Please report this."
            )
        if code:
            screen.say(
                f"(refused with exit code {code}, as it should be: nothing was read and nothing "
                f"was spent)",
                style="dim",
            )

    def _has(self, module: str, extra: str) -> bool:
        from importlib.util import find_spec

        if find_spec(module) is not None:
            return True
        screen.say(
            f"This step needs the extra '{extra}' (pip install 'dpublish[{extra}]') and is left "
            f"out.",
            style="yellow",
        )
        return False

    def _title(self, text: str) -> None:
        from rich.rule import Rule

        self._step += 1
        console = screen.console()
        console.print()
        console.print(Rule(f"{self._step}. {text}", align="left", style="green"))


def _true_counts(rows: pl.DataFrame) -> dict[str, int]:
    import polars as pl

    emergency, ward = pl.col("emergency") == "yes", pl.col("ward")
    tests = (
        emergency,
        (pl.col("age") >= 65) & (ward == "Cardiology"),
        (pl.col("readmitted") == "yes") & (pl.col("stay_days") >= 7),
        ward.is_in(["Maternity", "Paediatrics"]) & ~emergency,
    )
    return dict(zip(QUESTIONS, (rows.filter(test).height for test in tests), strict=True))


def _reference_auc(rows: pl.DataFrame, held_out: pl.DataFrame) -> float:
    """The same kind of model on the private rows, for comparison."""
    import polars as pl
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    both = pl.concat([rows, held_out])
    table = (
        both.select(pl.col("age").clip(0, 110), "stay_days", "ward", "emergency")
        .to_dummies(["ward", "emergency"])
        .to_numpy()
    )
    answer = (both["readmitted"] == "yes").to_numpy()
    cut = rows.height
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(
        table[:cut], answer[:cut]
    )
    return float(roc_auc_score(answer[cut:], model.predict_proba(table[cut:])[:, 1]))


def _plain(word: str) -> bool:
    return (bool(word) and not set(word) & set(" '\"*()<>=;")) or word.startswith("columns=")


def _clear(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in [
            *(folder / name for name in MADE),
            *folder.glob("hospital.ledger*"),
            folder / "state",
        ]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"Cannot write to '{folder}' ({error.strerror}).") from None


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in the folder, and keep the anchor of this throw-away ledger there too."""
    before = os.environ.get("DPUBLISH_STATE")
    os.environ["DPUBLISH_STATE"] = str((folder / "state").resolve())
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        if before is None:
            del os.environ["DPUBLISH_STATE"]
        else:
            os.environ["DPUBLISH_STATE"] = before


@asks("docs.Docs")
def docs(
    found: Page | Pages,
    page: Annotated[
        str | None, typer.Argument(metavar="PAGE", help="A page, for example 'schema'.")
    ] = None,
    search: Annotated[
        str | None, typer.Option("--search", metavar="WORDS", help="Show lines with these words.")
    ] = None,
    path: Annotated[bool, typer.Option("--path", help="Show where the files are.")] = False,
) -> None:
    """Read the documentation that comes with dpublish: a page, or the list of them."""
    from dpublish.requests.docs import Page

    with screen.output():
        if path:
            print(found.path if isinstance(found, Page) else found.folder)
        elif isinstance(found, Page):
            print(found.text, end="")
        elif search is not None:
            for name, line, text in found.found:
                print(f"{name}:{line}: {text}")
        else:
            for name, title in found.titles.items():
                print(f"{name:22} {title}")
