"""Make every release of `release_cases` with seeded noise, and write down all that can be seen of
it, one file per part.

    python tools/release_texts.py FOLDER [CASE ...]

What is random or a date by design (receipt, time, key, versions, hashes of code) is replaced by a
constant word. Everything else, to the last byte of a table, is a function of the code. It is run by
`compare_releases.py` with whichever `dpublish` is first on the path.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import runpy
import sys
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from release_cases import SURVEY, Case, Session, cases, sessions, write_tables
from solver_cases import Solver, solvers

SEED = 7
VOLATILE = ("receipt", "created", "versions", "code", "session", "private_digest")
"""Fields of a manifest or of a session that change from run to run, or with every edit of the
code."""


def main() -> None:
    out, wanted = Path(sys.argv[1]).absolute(), sys.argv[2:]
    out.mkdir(parents=True)
    work = out.with_name(f"{out.name}.work")
    work.mkdir()
    os.environ.update(DPUBLISH_STATE=str(work / "state"), COLUMNS="160", NO_COLOR="1", TERM="dumb")
    os.chdir(work)
    write_tables(work)
    for name, make in every_case():
        if not wanted or any(part in name for part in wanted):
            start = time.process_time()
            parts = make(Path(name.replace(" ", "-")))
            folder = out / name.replace(" ", "-")
            folder.mkdir()
            for part, text in parts.items():
                (folder / f"{part}.txt").write_text(text, encoding="utf-8")
            print(f"{name}: {time.process_time() - start:.2f} s", file=sys.stderr)


def every_case() -> Iterator[tuple[str, Callable[[Path], dict[str, str]]]]:
    for case in cases():
        yield f"release {case.name}", lambda folder, case=case: release_parts(case, folder)
    for solver in solvers():
        yield f"solve {solver.name}", lambda folder, solver=solver: solver_parts(solver, folder)
    for session in sessions():
        yield (
            f"online {session.name}",
            lambda folder, session=session: session_parts(session, folder),
        )
    yield "local survey", survey_parts


def release_parts(case: Case, folder: Path) -> dict[str, str]:
    """All that a curator and an analyst see of one release."""
    folder.mkdir()
    schema = folder / "schema.toml"
    schema.write_text(case.schema)
    amounts = [word for name, amount in case.cost.items() for word in (f"--{name}", amount)]
    words = ["plan", "--schema", str(schema), "--method", case.method, *amounts, *case.words]
    parts = {"plan": command(*words), "plan-json": command(*words, "--json")}
    return parts | failing_is_told(lambda: _published(case, folder, schema))


def _published(case: Case, folder: Path, schema: Path) -> dict[str, str]:
    release = publish(case, folder, schema)
    file = str(folder / "made.dpr")
    release.save(file)
    parts = {
        **seen_of(release, file),
        "query": command("query", file, *case.asked),
        "query-json": "".join(
            command("query", file, one, "--level", "0.9", "--json") for one in case.asked
        ),
        "query-wrong": command("query", file, "nothing = 'here'"),
        "by": command("query", file, "--by", case.by),
        "sql": "".join(
            command("sql", file, text) + command("sql", file, text, "--level", "0.9")
            for text in case.sql
        ),
    }
    if hasattr(release, "predict"):
        parts["predict"] = command(
            "predict", file, "guests.csv", "--out", str(folder / "guests.csv")
        )
        parts["predictions"] = (folder / "guests.csv").read_text()
    return scrubbed(parts, release.manifest, folder)


def publish(case: Case, folder: Path, schema: Path) -> Any:
    import dpublish as dp

    curator = dp.Curator(
        case.table,
        schema,
        ledger=folder / "paid.ledger",
        budget=budget_of(case.cost),
        store=folder / "store",
    )
    return curator.publish(case.mechanism(), **case.cost, seed=SEED, key="one")


def budget_of(cost: Mapping[str, str]) -> Any:
    import dpublish as dp

    return dp.Budget(**cost)


def solver_parts(solver: Solver, folder: Path) -> dict[str, str]:
    """A solution, and all that an analyst sees of it."""
    folder.mkdir()

    def solve() -> dict[str, str]:
        release = solve_case(solver, folder)
        file = str(folder / "made.dpr")
        release.save(file)
        return scrubbed(seen_of(release, file), release.manifest, folder)

    return failing_is_told(solve)


def solve_case(solver: Solver, folder: Path) -> Any:
    import dpublish as dp

    public = dict(solver.public)
    if "metric" in public:
        public["metric"] = dp.optimize.Metric.euclidean(public["metric"])
    paid = {
        "ledger": folder / "paid.ledger",
        "budget": budget_of(solver.cost),
        "store": folder / "store",
    }
    return getattr(dp.optimize, solver.problem)(
        solver.rows, **public, **solver.cost, **paid, seed=SEED, key="one"
    )


def session_parts(session: Session, folder: Path) -> dict[str, str]:
    """A session: what it promised, every answer, and its state at the end."""
    folder.mkdir()

    def talk() -> dict[str, str]:
        opened = open_session(session, folder)
        lines = [
            json.dumps(opened.ask(asked, key=f"question {n}").to_json())
            for n, asked in enumerate(session.questions)
        ]
        words = ["online", "status", str(folder / "desk")]
        parts = {
            "header": canonical(
                {key: value for key, value in opened.header.items() if key not in VOLATILE}
            ),
            "answers": "\n".join(lines),
            "transcript": canonical([answer.to_json() for answer in opened.transcript()]),
            "status": command(*words) + command(*words, "--json"),
        }
        opened.close()
        return scrubbed({**parts, "closed": command(*words)}, opened.header, folder)

    return failing_is_told(talk)


def open_session(session: Session, folder: Path) -> Any:
    import dpublish as dp

    name = "".join(part.capitalize() for part in session.method.split("-"))
    schema = dp.Schema.from_toml(session.schema)
    cost = {"epsilon": "16"}
    curator = dp.Curator(
        session.table,
        schema,
        ledger=folder / "paid.ledger",
        budget=budget_of(cost),
        store=folder / "store",
    )
    mechanism = getattr(dp, name)(**session.settings)
    return curator.answer_online(mechanism, **cost, key="one", folder=folder / "desk", seed=SEED)


def survey_parts(folder: Path) -> dict[str, str]:
    """The local model: every randomizer, with coins that repeat themselves."""
    import dpublish as dp

    folder.mkdir()
    survey = folder / "survey.toml"
    survey.write_text(SURVEY)
    rows = list(csv.DictReader(io.StringIO(Path("people.csv").read_text())))
    answers = [{**row, "likes": row["b"]} for row in rows]
    read = dp.local.Survey.read(survey)
    reports = read.randomize(answers, coins=Coins())
    lines = [
        ",".join(("survey", *read.questions)),
        *(",".join((read.digest, *report)) for report in reports),
    ]
    (folder / "reports.csv").write_text("\n".join(lines) + "\n")
    words = ["local", "aggregate", str(folder / "reports.csv"), "--survey", str(survey)]
    return {
        "reports": "\n".join(",".join(report) for report in reports),
        "plan": command("local", "plan", "--survey", str(survey)),
        "aggregate": command(*words) + command(*words, "--json"),
    }


class Coins:
    """Uniform integers that are the same every time."""

    def __init__(self) -> None:
        import numpy as np

        self._numbers = np.random.default_rng(SEED)

    def integers(self, bound: int, *, size: int, label: str = "") -> Any:
        return self._numbers.integers(0, bound - 1, size=size, dtype="uint64", endpoint=True)


def seen_of(release: Any, file: str) -> dict[str, str]:
    """Manifest, tables and everything that any release can be asked for."""
    page = f"{file}.html"
    return {
        # `files` holds the hash of every table, so equal manifests mean equal bytes
        "manifest": canonical(
            {key: value for key, value in release.manifest.items() if key not in VOLATILE}
        ),
        "show": command("show", file),
        "verify": command("verify", file),
        "report": command("report", file, "--out", page) + _text(page),
        "export": command("export", file, "--out", f"{file}.csv") + _text(f"{file}.csv"),
        "export-synthetic": command(
            "export", file, "--synthetic", "--number", "5", "--out", f"{file}.syn.csv"
        )
        if not hasattr(release, "sample")
        else canonical(failing_is_told(lambda: {"rows": release.sample(20, seed=SEED).to_dicts()})),
    }


def failing_is_told(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A refusal is part of what is seen, and compared like everything else."""
    try:
        return make()
    except Exception as error:
        if os.environ.get("DPUBLISH_CASES_DEBUG"):
            traceback.print_exc()
        return {"refused": f"{type(error).__name__}: {error}"}


def command(*words: str) -> str:
    """Exit code, standard output and standard error of one command, run in this process."""
    out, err, code = run(*words)
    return f"$ dpublish {' '.join(words)}\n{out}{err}exit {code}\n"


def document(*words: str) -> Any:
    """The JSON document that a command writes, or its error."""
    out, err, code = run(*words)
    return (
        json.loads(out if code == 0 else err)
        if (out if code == 0 else err).lstrip().startswith("{")
        else err
    )


def run(*words: str) -> tuple[str, str, object]:
    """Standard output, standard error and exit code of one command."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        mock.patch.object(sys, "argv", ["dpublish", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_module("dpublish", run_name="__main__")
        except SystemExit as leaving:
            code = leaving.code or 0
    return out.getvalue(), err.getvalue(), code


def canonical(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str, ensure_ascii=False)


def scrubbed(parts: Mapping[str, str], manifest: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Parts without what a run cannot repeat: who paid, when, and where."""
    receipt = manifest["receipt"]
    words = {str(receipt[name]): f"<{name}>" for name in ("ledger_id", "head_hash")}
    words |= {
        str(manifest.get("created", receipt.get("created"))): "<created>",
        str(folder.absolute()): "<folder>",
    }
    made = folder / "made.dpr"
    if made.exists():
        words[hashlib.sha256(made.read_bytes()).hexdigest()] = "<release sha256>"
        with zipfile.ZipFile(made) as archive:
            words[hashlib.sha256(archive.read("manifest.json")).hexdigest()] = "<manifest sha256>"
    for found, word in words.items():
        if found != "None":
            parts = {name: text.replace(found, word) for name, text in parts.items()}
    return dict(parts)


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""


if __name__ == "__main__":
    main()
