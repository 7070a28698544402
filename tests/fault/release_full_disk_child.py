"""A curator whose files may not grow beyond a limit: `release_full_disk_child.py FOLDER LIMITS
FIRST STEP`.

LIMITS releases, each at another limit, from FIRST parts of a thousand of the largest file on, STEP
parts apart. What became of each, and of the same key when there was room again, is printed as JSON.
"""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import sys
from pathlib import Path

import polars as pl

import dpublish as dp

SCHEMA = (
    '[dataset]\nname = "t"\n[columns.a]\nkind = "integer"\nlower = 0\nupper = 29999\nbins = 30000\n'
)


def attempt(folder: Path, key: str) -> str:
    """`released` and a hash, `lost`, or `refused` and the kind of error."""
    rows = pl.DataFrame({"a": [place % 30_000 for place in range(60_000)]})
    try:
        with dp.open_ledger(
            folder / "t.ledger", budget=dp.Budget(epsilon=1000), create=True
        ) as ledger:
            curator = dp.Curator(
                rows, dp.Schema.from_toml(SCHEMA), ledger=ledger, store=folder / "store"
            )
            # so many cells that the bundle is larger than the ledger: some limits stop only the
            # one, some only the other
            release = curator.publish(dp.Histogram(threshold=1), epsilon=1, key=key, again=True)
    except dp.PublishError as error:
        return "lost" if "new key" in str(error) else f"refused {type(error).__name__}"
    assert release.path is not None
    return f"released {hashlib.sha256(Path(release.path).read_bytes()).hexdigest()}"


def held(folder: Path) -> dict[str, str]:
    """Bundles that have a name, by the key that paid for them. All of them verify."""
    found = {}
    for path in folder.rglob("*.dpr"):
        if not path.name.startswith("."):
            assert dp.verify_bundle(path).ok, "a bundle is absent or verifies; it is never torn"
            found[dp.open_release(path).manifest["receipt"]["key"]] = hashlib.sha256(
                path.read_bytes()
            ).hexdigest()
    return found


def paid(folder: Path) -> list[str]:
    with dp.open_ledger(folder / "t.ledger") as ledger:
        ledger.verify()
        return [entry.key for entry in ledger.history() if entry.kind == "debit"]


def main(folder: Path, limits: int, first: int, step: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    attempt(folder, "before")
    largest = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    for number in range(limits):
        key, limit = f"k{number}", largest * (first + step * number) // 1000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        outcome = attempt(folder, key)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        state = {
            "limit": limit,
            "outcome": outcome,
            "paid": key in paid(folder),
            "held": held(folder).get(key),
        }
        print(
            json.dumps({**state, "again": attempt(folder, key), "once more": attempt(folder, key)})
        )
    assert len(set(paid(folder))) == len(paid(folder)), "a key is paid once"


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(number) for number in sys.argv[2:5]))
