"""What can be asked of the proofs: which code each covers, and whether it is what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpublish.requests.base import NOBODY, Caller, Request, requests_of


@dataclass(frozen=True, kw_only=True)
class CoveredCode:
    """One function of a proof: the hash that the proof names, and that of the installed code."""

    proof: str
    name: str
    recorded: str
    actual: str | None

    @property
    def holds(self) -> bool:
        return self.recorded == self.actual


@dataclass(frozen=True, kw_only=True)
class ProofList:
    covered: tuple[CoveredCode, ...]

    def to_json(self) -> Mapping[str, Any]:
        proofs: dict[str, list[CoveredCode]] = {}
        for one in self.covered:
            proofs.setdefault(one.proof, []).append(one)
        return {
            "ok": all(one.holds for one in self.covered),
            "proofs": [
                {
                    "proof": proof,
                    "ok": all(one.holds for one in code),
                    "covers": [
                        {
                            "name": one.name,
                            "sha256": one.recorded,
                            "installed": one.actual,
                            "ok": one.holds,
                        }
                        for one in code
                    ],
                }
                for proof, code in proofs.items()
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Proofs(Request):
    """Every proof, the code that it covers, and whether that code is as it was when the proof was
    read last."""

    verb = "proofs"

    def run(self, caller: Caller = NOBODY) -> ProofList:
        from dpublish.audit.covers import SOURCE, covers, proof_files

        found = []
        for proof in proof_files():
            place = proof.relative_to(SOURCE / "dpublish").as_posix()
            for one in covers(proof):
                try:
                    actual: str | None = one.actual
                except LookupError:
                    actual = None
                found.append(
                    CoveredCode(proof=place, name=one.name, recorded=one.recorded, actual=actual)
                )
        return ProofList(covered=tuple(found))


REQUESTS = requests_of(__name__)
