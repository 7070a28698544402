"""The methods of the comparison: which script runs each, in which environment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """A script, the environment it needs (see ../make_environments.py; "" is dpublish's own) and
    its extra words."""

    script: str
    environment: str = ""
    words: tuple[str, ...] = ()


METHODS = {
    "real": Method("bootstrap.py"),
    "dpublish-pure": Method("ours.py", words=("pure",)),
    "dpublish-approximate": Method("ours.py", words=("approximate",)),
    "dpublish-raw": Method("ours.py", words=("approximate", "raw")),
    "opendp-mst": Method("peer_opendp.py", "opendp", ("mst",)),
    "opendp-mst-round": Method("peer_opendp.py", "opendp", ("mst", "round")),
    "opendp-aim": Method("peer_opendp.py", "opendp", ("aim",)),
    "dpmm-mst": Method("peer_dpmm.py", "dpmm", ("mst",)),
    "dpmm-mst-raw": Method("peer_dpmm.py", "dpmm", ("mst", "raw")),
    "dpmm-aim": Method("peer_dpmm.py", "dpmm", ("aim",)),
    "dpmm-privbayes": Method("peer_dpmm.py", "dpmm", ("privbayes",)),
    "smartnoise-mst": Method("peer_smartnoise.py", "smartnoise", ("mst",)),
    "smartnoise-aim": Method("peer_smartnoise.py", "smartnoise", ("aim",)),
    "datasynthesizer": Method("peer_datasynthesizer.py", "datasynthesizer"),
    "diffprivlib-logistic": Method("peer_diffprivlib.py", "diffprivlib"),
}
OURS = ("dpublish-pure", "dpublish-approximate", "dpublish-raw")
RAW = ("dpublish-raw", "dpmm-mst-raw")
"""Methods that are given the numbers and their bounds, and find bins themselves."""
ADAPTIVE = ("opendp-aim", "smartnoise-aim", "dpmm-aim")  # many rounds of fitting: minutes to hours
