"""A curator's process whose files may not grow beyond a limit: `release_full_disk_child.py FOLDER KEY BYTES` (0: no limit).

Prints what became of the release: `released SHA256`, `lost`, or `refused` and the kind of error.
"""

from __future__ import annotations

import hashlib
import resource
import signal
import sys
from pathlib import Path

import polars as pl

import dpublish as dp

SCHEMA = '[dataset]\nname = "t"\n[columns.a]\nkind = "integer"\nlower = 0\nupper = 49999\nbins = 50000\n'


def main(folder: Path, key: str, limit: int) -> None:
    # enough cells that the bundle is larger than the ledger, so that some limits stop only the one or only the other
    rows = pl.DataFrame({"a": [place % 50_000 for place in range(600_000)]})
    curator = dp.Curator(rows, dp.Schema.from_toml(SCHEMA), ledger=folder / "t.ledger", budget=dp.Budget(epsilon=100))
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        release = curator.publish(dp.Histogram(threshold=1), epsilon=1, key=key)
    except dp.PublishError as error:
        print("lost" if "new key" in str(error) else f"refused {type(error).__name__}")
        return
    assert release.path is not None
    print("released", hashlib.sha256(Path(release.path).read_bytes()).hexdigest())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
