"""One built-in audit: a method with a claim, made-up neighbouring inputs, and what each tier needs
to know."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from dpublish.audit import neighbours
from dpublish.audit.distributional import distributional
from dpublish.audit.exact import exact
from dpublish.audit.replay import Draws, MechanismCall, replay, seeded
from dpublish.audit.report import Report
from dpublish.audit.sampled import sampled
from dpublish.audit.twin import LEDGER_FILES, twin
from dpublish.noise.base import Noise
from dpublish.noise.enumerator import EnumerationError, Tails
from dpublish.privacy.cost import Cost
from dpublish.workloads import theory

# The thesis's counter-example (Roth 2010, theorem 13): differentially private, and refuted for
# samples of one population.

MODULUS = 3
EPSILON = Fraction(1, 2)
POPULATION = (0, 1) * 40
ROWS = 24


def folded_count(noise: Noise, rows: Any) -> int:
    """A count folded into a wave of slope 1: a row moves it by at most 1, and a sample takes it
    anywhere."""
    folded = np.array([theory.mirrored_mod(sum(rows), MODULUS)], dtype=np.int64)
    return int(noise.laplace(folded, sensitivity=Fraction(1), epsilon=EPSILON)[0])


def mirrored_mod() -> Iterator[Trial]:
    """Survives the tiers about neighbours and fails the one about samples, as it must."""
    yield Trial(
        method="mirrored-mod",
        case="replace-one",
        neighbours="replace-one",
        claim=Cost.pure(EPSILON),
        call=folded_count,
        pairs=list(neighbours.replace_one((0, 1), rows=4)),
        sampled=Sampled(runs=2000),
        twin="it is an example, which no command publishes",
        distributional=Distributional(population=POPULATION, rows=ROWS, alpha=EPSILON),
    )


Tier = Literal["exact", "replay", "sampled", "twin", "distributional"]
Pairs = list[tuple[Any, Any]]
TIERS: tuple[Tier, ...] = get_args(Tier)[:4]
"""The tiers that every method is held to. The fifth is about a promise that none of them makes."""

SAMPLED_PAIRS = 10


@dataclass(frozen=True)
class Declined:
    """A tier that does not apply to a method, and why."""

    tier: Tier
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"tier": self.tier, "passed": None, "reason": self.reason}


@dataclass(frozen=True, kw_only=True)
class Exact:
    """Settings of the exact tier. `pairs` limits how many pairs are enumerated; they are taken
    evenly from all.

    `call` is what is enumerated, where that is smaller than what the other tiers run.
    """

    window: tuple[int, int] = (-2, 4)
    tails: Tails = "clip"
    root: int = 2
    base: Any = None
    pairs: int = 60
    max_branches: int = 400_000
    call: MechanismCall | None = None


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Settings of the replay tier. `adds_up`: the proof is plain composition, so the taps must add
    up to the claim."""

    adds_up: bool = True
    runs: int = 3
    pairs: int = 40


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Settings of the sampled tier. `runs` is how many the long audit makes on each input;
    `statistics` are further features.

    `delta` is the delta that goes with `epsilon` when the claim is in rho.
    """

    runs: int = 4000
    statistics: Sequence[Callable[[Any], Hashable]] = ()
    epsilon: Any = None
    delta: Any = None
    pairs: int = SAMPLED_PAIRS


@dataclass(frozen=True, kw_only=True)
class Twin:
    """Commands for the twin tier, run on `inputs` or else the first pair, which are put in the file
    `name`.

    `private` are files that hold private numbers or a blinded digest of them: their names are
    compared, their bytes are not.
    """

    commands: Sequence[Sequence[str]]
    name: str
    public: Mapping[str, bytes] = field(default_factory=dict)
    inputs: tuple[bytes, bytes] | None = None
    private: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Distributional:
    """A claim about samples of one population instead of neighbours: beyond `alpha` on at most a
    share `beta` of all pairs."""

    population: Sequence[Any]
    rows: int
    alpha: Fraction
    beta: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A method on made-up inputs. Each tier has its settings, or the reason why it does not
    apply."""

    method: str
    case: str
    neighbours: str
    claim: Cost
    call: MechanismCall
    pairs: Sequence[tuple[Any, Any]]
    exact: Exact | str = field(default_factory=Exact)
    replay: Replay | str = field(default_factory=Replay)
    sampled: Sampled | str = field(default_factory=Sampled)
    twin: Twin | str
    distributional: Distributional | str = (
        "it promises differential privacy, which says nothing about two samples"
    )

    @property
    def name(self) -> str:
        return f"{self.method} ({self.case})"

    def run(
        self,
        tier: Tier,
        *,
        samples: int | None = None,
        pairs: int | None = None,
        false_alarm: float = 1e-6,
        draws: Draws = seeded,
        first_seed: int = 1,
    ) -> Report | Declined:
        """Run one tier, on at most `pairs` pairs. The other keywords are those of the sampled
        tier."""
        settings = getattr(self, tier)
        if isinstance(settings, str):
            return Declined(tier, settings)
        if isinstance(settings, Twin):
            return self._twin(settings)
        if isinstance(settings, Distributional):
            return distributional(
                self.call,
                settings.population,
                rows=settings.rows,
                alpha=settings.alpha,
                beta=settings.beta,
            )
        inputs = spread(self.pairs, min(pairs or settings.pairs, settings.pairs))
        if isinstance(settings, Exact):
            return self._exact(settings, inputs)
        if isinstance(settings, Replay):
            kind = "rho" if self.claim.kind == "zcdp" else "epsilon"
            claim: dict[str, Any] = {kind: getattr(self.claim, kind)} if settings.adds_up else {}
            return replay(self.call, inputs, runs=settings.runs, **claim)
        return sampled(
            self.call,
            inputs,
            epsilon=self.claim.epsilon if settings.epsilon is None else settings.epsilon,
            delta=self.claim.delta if settings.delta is None else settings.delta,
            samples=settings.runs if samples is None else samples,
            false_alarm=false_alarm,
            statistics=settings.statistics,
            draws=draws,
            first_seed=first_seed,
        )

    def _exact(self, settings: Exact, inputs: Pairs) -> Report:
        try:
            return exact(
                settings.call or self.call,
                inputs,
                epsilon=self.claim.epsilon,
                delta=self.claim.delta,
                window=settings.window,
                tails=settings.tails,
                base=settings.base,
                root=settings.root,
                max_branches=settings.max_branches,
            )
        except EnumerationError as refusal:
            # a built-in audit that cannot be enumerated is a mistake in its settings, not a
            # property of the method
            raise AssertionError(f"{self.name}: {refusal}") from None

    def _twin(self, settings: Twin) -> Report:
        one, other = settings.inputs or self.pairs[0]
        return twin(
            settings.commands,
            {settings.name: one},
            {settings.name: other},
            public=settings.public,
            ignore=(*LEDGER_FILES, *settings.private),
        )


def spread(pairs: Sequence[tuple[Any, Any]], most: int) -> Pairs:
    """At most so many of the pairs, taken evenly; the first is always among them."""
    step = -(-len(pairs) // most)
    return list(pairs[::step])
