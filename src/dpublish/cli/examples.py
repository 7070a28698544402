"""One example for every verb, shown under its help. Together they tell a story about the files of
'dpublish demo', and a test runs them in this order."""

from __future__ import annotations

from typing import Any

EXAMPLES = {
    "demo": "dpublish demo --out dpublish-demo",
    "docs": "dpublish docs schema",
    "methods": "dpublish methods histogram",
    "schema new": "dpublish schema new --template survey --out survey-schema.toml",
    "schema draft": "dpublish schema draft hospital.csv --out draft.toml",
    "schema from-codebook": "dpublish schema from-codebook codebook.json --out from-codebook.toml",
    "schema discover": "dpublish schema discover hospital.csv --schema start.toml --epsilon 0.5 "
    "--delta 1e-9 --ledger start.ledger --budget 1 --budget-delta 1e-8 --out found.toml",
    "schema check": "dpublish schema check hospital.toml --data hospital.csv",
    "schema show": "dpublish schema show hospital.toml",
    "check": "dpublish check hospital.csv --schema hospital.toml",
    "plan": "dpublish plan --schema hospital.toml --set columns=age,ward --epsilon 0.5,1 "
    '--question "age >= 65"',
    "compare": 'dpublish compare --schema hospital.toml --epsilon 1 --question "age >= 65" '
    "--method histogram --method generalized-table",
    "rehearse": "dpublish rehearse --schema hospital.toml --set columns=age,ward --epsilon 1 "
    "--question \"age >= 65 and ward = 'Cardiology'\"",
    "warm": "dpublish warm histogram",
    "ledger open": "dpublish ledger open hospital.ledger --epsilon 4",
    "release": "dpublish release hospital.csv --schema hospital.toml "
    "--set columns=age,ward,readmitted --epsilon 1 --ledger hospital.ledger --out hospital.dpr",
    "show": "dpublish show hospital.dpr",
    "query": "dpublish query hospital.dpr \"age >= 65 and ward = 'Cardiology'\"",
    "sql": 'dpublish sql hospital.dpr "select ward, count(*) as visits from release group by ward"',
    "export": "dpublish export hospital.dpr --synthetic --out synthetic.csv",
    "report": "dpublish report hospital.dpr --out report.html",
    "page": "dpublish page hospital.dpr --out page.html",
    "predict": "dpublish predict model.dpr visits.csv --out predicted.csv",
    "verify": "dpublish verify hospital.dpr --ledger hospital.ledger",
    "key new": 'dpublish key new office.key --name "Statistics office"',
    "key show": "dpublish key show office.key",
    "key sign": "dpublish key sign hospital.dpr --sign-with office.key",
    "ledger status": "dpublish ledger status hospital.ledger",
    "ledger history": "dpublish ledger history hospital.ledger",
    "ledger key": "dpublish ledger key hospital.ledger first-release",
    "ledger verify": "dpublish ledger verify hospital.ledger",
    "ledger witness": "dpublish ledger witness hospital.ledger elsewhere",
    "ledger merge": "dpublish ledger merge hospital.ledger --name default",
    "ledger recover": "dpublish ledger recover hospital.ledger",
    "ledger backup": "dpublish ledger backup hospital.ledger --out hospital-backup",
    "ledger restore": "dpublish ledger restore hospital-backup elsewhere/hospital.ledger",
    "solve": "dpublish solve min-cut edges.csv --public 6 --epsilon 1 --ledger roads.ledger "
    "--budget 2 --out cut.dpr",
    "online plan": "dpublish online plan --schema hospital.toml --set columns=emergency "
    "--set max_hard=2 --epsilon 2",
    "online open": "dpublish online open hospital.csv desk --schema hospital.toml "
    "--set columns=emergency --set max_hard=2 --epsilon 2 --ledger hospital.ledger",
    "online ask": 'dpublish online ask desk "emergency = true"',
    "online status": "dpublish online status desk",
    "online close": "dpublish online close desk",
    "local plan": "dpublish local plan --survey survey.toml --people 10000",
    "local randomize": "dpublish local randomize answers.csv --survey survey.toml "
    "--out reports.csv",
    "local aggregate": "dpublish local aggregate reports.csv --survey survey.toml",
    "audit": "dpublish audit histogram --tier exact",
    "serve": "dpublish serve --port 8765 --state office",
}


def add_examples(app: Any, prefix: str = "") -> None:
    """Put the example of every verb under its help."""
    for info in app.registered_commands:
        example = EXAMPLES.get(prefix + info.name)
        if example is not None:
            info.epilog = f"Example: {example}"
    for group in app.registered_groups:
        add_examples(group.typer_instance, f"{group.name} ")
