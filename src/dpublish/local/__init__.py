"""The local model: every person randomises their own answer, and nobody else ever sees it.

    kary = dp.local.KaryResponse(["bus", "car", "bike"], epsilon=1)
    report = kary.randomize_one(2)         on a device, with numpy alone
    counts = kary.aggregate(reports)       at the collector

Randomizers: `BinaryResponse`, `KaryResponse`, `UnaryEncoding`, `LocalHashing`, `HadamardResponse`
(one of k levels), `MeanResponse` (a number), `Conjunctions` (many yes-or-no attributes),
`HeavyHitters` (a huge domain). `LocalOracle` and `DeviceLedger` hold each person to a total;
`Survey` puts several questions in one file. Proofs: coins.proof.md, oracle.proof.md.
"""

from dpublish.local.base import FrequencyOracle, Randomizer, Tally
from dpublish.local.coins import Coin, Coins, DeviceCoins
from dpublish.local.conjunctions import (
    ConjunctionEstimates,
    Conjunctions,
    parity_error,
    parity_from_conjunctions,
)
from dpublish.local.device_ledger import DeviceLedger
from dpublish.local.estimates import Frequencies
from dpublish.local.hashing import HadamardResponse, LocalHashing
from dpublish.local.hitters import HeavyHitters, Hitter
from dpublish.local.mean import MeanResponse
from dpublish.local.oracle import LocalOracle
from dpublish.local.survey import Survey
from dpublish.local.unary import BinaryResponse, KaryResponse, UnaryEncoding

__all__ = [
    "BinaryResponse",
    "Coin",
    "Coins",
    "ConjunctionEstimates",
    "Conjunctions",
    "DeviceCoins",
    "Frequencies",
    "FrequencyOracle",
    "HadamardResponse",
    "HeavyHitters",
    "Hitter",
    "KaryResponse",
    "LocalHashing",
    "LocalOracle",
    "MeanResponse",
    "Randomizer",
    "Survey",
    "Tally",
    "UnaryEncoding",
    "DeviceLedger",
    "parity_error",
    "parity_from_conjunctions",
]
