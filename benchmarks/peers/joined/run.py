"""Runs one method on one of the coded tables and appends its figures to a file of JSON lines.

    python run.py METHOD --table adult --data DIR --out FILE.jsonl

Methods: dpublish-pure, dpublish-approximate (in this environment); mst, opendp-aim, opendp-mst, datasynthesizer (each needs an
environment of its own, see README.md, given by --python); real (a bootstrap of the training rows).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from coded import TABLES, Coded, coded, frame_of, schema_text
from measures import measure
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
DELTA = "1e-9"
PEERS = {
    "mst": ("peer_mst.py", ()),
    "opendp-aim": ("peer_opendp.py", ()),
    "opendp-mst": ("peer_opendp.py", ("mst",)),
    "datasynthesizer": ("peer_datasynthesizer.py", ()),
}


def run_dpublish(table: Coded, epsilon: str, seed: int, *, pure: bool) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """The whole way: plan, debit, code the rows, noise, seal, open, fit, draw as many rows as there were."""
    import dpublish as dp

    frame, schema = frame_of(table, table.train), dp.Schema.from_toml(schema_text(table))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPUBLISH_STATE"] = str(Path(folder) / "state")
        budget = dp.Budget(epsilon=1000, delta="1e-3")
        curator = dp.Curator(frame, schema, ledger=Path(folder) / "bench.ledger", budget=budget)
        start = time.perf_counter()
        amounts = {"epsilon": epsilon} if pure else {"epsilon": epsilon, "delta": DELTA}
        release: Any = curator.publish(dp.JoinedHistograms(), seed=seed, **amounts)
        rows = np.stack(release.codes(table.columns, len(table.train), seed=seed), axis=1)
        seconds = time.perf_counter() - start
    return rows, {"seconds": seconds, "noise": release.manifest["facts"]["noise"], "pairs": len(release.pairs)}


def run_peer(table: Coded, method: str, epsilon: str, seed: int, python: str) -> tuple[NDArray[np.int64], dict[str, Any]]:
    script, words = PEERS[method]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, train=table.train, levels=np.array(table.levels))
        command = [python, str(HERE / script), str(source), str(target), epsilon, DELTA, str(seed), *words]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{method} failed with {child.returncode}")
        held = np.load(target)
        return held["rows"], {"seconds": float(held["seconds"]), "peak_mb": round(usage.ru_maxrss / 1024)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=["real", "dpublish-pure", "dpublish-approximate", *PEERS])
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epsilon", action="append")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the peer's environment")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.method.startswith("dpublish"):
        run_dpublish(coded("acs_ma2019", given.data), "1", 0, pure=True)  # leaves compiled code in the cache
    for name in given.table or TABLES:
        table = coded(name, given.data)
        for epsilon in given.epsilon or ["1"]:
            for seed in range(given.seeds):
                if given.method == "real":
                    pick = np.random.default_rng(seed).integers(0, len(table.train), len(table.train))
                    rows, facts = table.train[pick], {"seconds": 0.0}
                elif given.method.startswith("dpublish"):
                    rows, facts = run_dpublish(table, epsilon, seed, pure=given.method.endswith("pure"))
                else:
                    rows, facts = run_peer(table, given.method, epsilon, seed, given.python)
                line = {"method": given.method, "table": name, "epsilon": epsilon, "seed": seed, **facts}
                line |= {"load": os.getloadavg()[0], **measure(table, rows)}
                with given.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print({key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()}, flush=True)


if __name__ == "__main__":
    main()
