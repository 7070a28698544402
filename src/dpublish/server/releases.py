"""From a proposal to a public page: who asked, who agreed, the job that pays, and withdrawal.

The key of a release is that of its proposal. A job that was killed can therefore be run again: the
same key never pays twice, and gives the same bytes or none.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from dpublish.errors import InputError
from dpublish.owned import owned_folder
from dpublish.requests.analyst import Export, Page, Report, Show, open_for, verbs_for
from dpublish.requests.base import Format, Request
from dpublish.requests.curator import Release, Sign
from dpublish.server.accounts import Actor
from dpublish.server.config import Config
from dpublish.server.datasets import UPLOADS, Datasets, named
from dpublish.server.desk import ONLINE, Desks
from dpublish.server.jobs import JobRunner
from dpublish.server.store import PROPOSALS, RELEASES, Row, Store, now, picked, record, set_rows

FILE_SETTINGS: Final = frozenset({"public", "alternatives", "public_data"})
"""Settings of methods that name a file. Here they name published releases, or no file at all."""

RECORDS: Final = {
    "croissant": "croissant.json",
    "dcat": "dcat.json",
    "frictionless": "datapackage.json",
    "registry": "registry.json",
    "label": "label.html",
    "dpo": "officer.html",
}


class Releases:
    def __init__(
        self, config: Config, store: Store, datasets: Datasets, jobs: JobRunner, desks: Desks
    ) -> None:
        self.config, self.store, self.datasets, self.jobs = config, store, datasets, jobs
        self.desks, self.proposals = desks, desks.proposals
        self.changed: Callable[[], None] = lambda: None
        """Called when what the public sees has changed."""
        self._settling = threading.Lock()

    # -- proposals

    def propose(
        self,
        dataset: Row,
        *,
        release: str,
        title: str,
        method: str,
        settings: Mapping[str, str],
        epsilon: str | None,
        delta: str | None,
        rho: str | None,
        why: str,
        by: Actor,
    ) -> str:
        """Ask for a release; nothing is read or paid. The schema is pinned as it is now."""
        release = named(release, "release")
        self.proposals.require_new("release", RELEASES, release)
        self.settings_of(settings)
        amounts = {"epsilon": epsilon, "delta": delta, "rho": rho}
        return self.proposals.add(
            "release",
            dataset,
            release,
            {"method": method, "settings": dict(settings), **amounts},
            title=title,
            why=why,
            by=by,
            **amounts,
        )

    def proposal(self, one: str) -> Row:
        return self.store.known(PROPOSALS, "proposal", id=one)

    def approve(self, one: str, *, by: Actor) -> str:
        """Agree, and let the job begin that debits the ledger. Says the job."""
        row = self.proposal(one)
        if self.config.two_person and row["proposer"] == by.name:
            raise InputError(
                "Who proposes does not approve: ask another approver. (Offices of one person can "
                "switch the two-person rule off in the configuration; the ledger records it.)"
            )
        decided = {
            "state": "approved", "decider": by.name, "decided": now(),
            "two_person": self.config.two_person,
        }  # fmt: skip
        if json.loads(row["request"]).get(ONLINE):
            return self.desks.begin(row, decided, by=by)
        request = self.request_of(row)
        self.proposals.accept("release", row, decided, RELEASES, state="making", by=by)
        return self._run(self.proposal(one), request)

    def run_again(self, release: str, *, by: Actor) -> str:
        """After a failure: the same request with the same key. What was paid is not paid again."""
        row = self.get(release)
        proposal = self.store.rows(PROPOSALS, release=release, state="approved")[0]
        if not self.store.set(
            RELEASES, {"name": row["name"], "state": "failed"}, {"state": "making", "job": ""}
        ):
            raise InputError("This release did not fail.")
        self.store.did(by.name, "release run again", release)
        return self._run(proposal, self.request_of(proposal))

    def _run(self, proposal: Row, request: Release) -> str:
        return self.proposals.begin(
            "release", proposal, RELEASES, [request, Show(release=request.out)]
        )

    def decline(self, one: str, *, reason: str, by: Actor) -> None:
        """Refuse another's proposal, or take back one's own. Nothing was paid."""
        row = self.proposal(one)
        state = "retracted" if row["proposer"] == by.name else "rejected"
        if not self.store.set(
            PROPOSALS,
            {"id": one, "state": "proposed"},
            {"state": state, "decider": by.name, "decided": now(), "reason": reason[:4000] or None},
        ):
            raise InputError("Somebody decided about this proposal already.")
        self.store.did(by.name, f"proposal {state}", row["release"], proposal=one)

    def request_of(self, proposal: Row) -> Release:
        """The request that a proposal stands for, with the places of this server filled in."""
        dataset, asked = self.datasets.as_proposed(proposal)
        data, database = self.datasets.source(dataset)
        return Release(
            data=data,
            database=database,
            schema=self.datasets.schema_path(dataset),
            ledger=self.config.ledger_url,
            name=dataset["population"],
            out=self.file_of(proposal["release"]),
            store=self.config.state / "files" / "store",
            method=asked["method"],
            settings=self.settings_of(asked["settings"]),
            epsilon=asked["epsilon"],
            delta=asked["delta"],
            rho=asked["rho"],
            key=f"office-{proposal['id']}",
            sign_with=self.config.signing_key,
            overwrite=True,
        )

    def settings_of(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Settings as the private side takes them: where a method wants a public table, the name of
        a published release becomes its file, and nothing else does."""
        made: dict[str, str] = {}
        for name, value in settings.items():
            if name in FILE_SETTINGS and value != "uniform":
                public = self.store.one(RELEASES, name=value, state="published")
                if name == "alternatives" or public is None:
                    raise InputError(
                        f"{name} must be 'uniform' or the name of a published release of this "
                        "office; no file of the server can be named."
                    )
                value = str(self.public_folder(value) / f"{value}.dpr")
            made[name] = value
        return made

    # -- releases

    def all(self) -> list[Row]:
        return self.store.rows(RELEASES, newest="created")

    def get(self, name: str) -> Row:
        return self.store.known(RELEASES, "release", name=name)

    def file_of(self, name: str) -> Path:
        folder = self.config.state / "files" / "releases"
        owned_folder(folder)
        return folder / f"{named(name, 'release')}.dpr"

    def public_folder(self, name: str) -> Path:
        return self.config.state / "public" / named(name, "release")

    def publish(self, name: str, *, by: Actor) -> str:
        """Make the public files, then list it. Everything is post-processing: nothing is paid."""
        row = self.get(name)
        if row["state"] != "made":
            raise InputError("Only a release that was made and is not yet public can be published.")
        folder = self.public_folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / f"{name}.dpr"
        shutil.copyfile(self.file_of(name), copy)
        requests = public_requests(copy, folder)
        if not self.store.set(
            RELEASES, {"name": name, "state": "made"}, {"state": "publishing", "job": ""}
        ):
            raise InputError("Somebody is publishing this release already.")
        job = self.jobs.submit(requests, actor=by.name, subject=f"publish {name}")
        self.store.set(RELEASES, {"name": name}, {"job": job})
        return job

    def withdraw(self, name: str, *, reason: str, by: Actor) -> None:
        """Take it off the catalogue. Its page says so; what it cost stays spent."""
        if not reason.strip():
            raise InputError("Say why: the public page of a withdrawn release states the reason.")
        reason = reason.strip()[:2000]
        if not self.store.set(
            RELEASES,
            {"name": name, "state": "published"},
            {"state": "withdrawn", "withdrawn": now(), "reason": reason},
        ):
            raise InputError("Only a published release can be withdrawn.")
        self.store.did(by.name, "release withdrawn", name, reason=reason)
        shutil.rmtree(self.public_folder(name), ignore_errors=True)
        self.changed()

    def sign(self, name: str, *, by: Actor) -> None:
        """Add the office's signature to a release that was made without it."""
        row = self.get(name)
        if self.config.signing_key is None:
            raise InputError(
                "This office has no signing key: see signing_key in its configuration."
            )
        if row["state"] not in ("made", "published"):
            raise InputError("Only a release that was made can be signed.")
        path = self.file_of(name)
        Sign(release=path, sign_with=self.config.signing_key).run()
        if row["state"] == "published":
            shutil.copyfile(path, self.public_folder(name) / f"{name}.dpr")
        facts = _facts(Show(release=path).run().to_json())
        self.store.set(RELEASES, {"name": name}, {"facts": json.dumps(facts)})
        self.store.did(by.name, "release signed", name)
        self.changed()

    def settle(self) -> None:
        """Write down what jobs have come to."""
        with self._settling:
            for state in ("making", "publishing"):
                for row in self.store.rows(RELEASES, state=state):
                    self._settle(row)

    def _settle(self, row: Row) -> None:
        status = self.jobs.status(row["job"]) if row["job"] else None
        if status is None or not status.over:
            return
        done = status.state == "done"
        if row["state"] == "publishing":
            values = {"state": "published", "published": now()} if done else {"state": "made"}
        elif done:
            facts = json.dumps(_facts(self.jobs.results(row["job"])[-1]))
            values = {"state": "made", "facts": facts}
            self._used(row["dataset"])
        else:
            values = {"state": "failed"}
        with self.store.change() as connection:
            if not set_rows(connection, RELEASES, picked(row, "name", "state", "job"), values):
                return
            record(
                connection, actor=status.actor, action=f"release {values['state']}",
                subject=row["name"], job=row["job"],
            )  # fmt: skip
        if row["state"] == "publishing":
            self.changed()

    def _used(self, dataset: str) -> None:
        """Uploaded rows are deleted once they were used."""
        row = self.datasets.get(dataset)
        if row is not None and row["place"] == UPLOADS:
            (self.config.state / UPLOADS / row["item"]).unlink(missing_ok=True)
            self.store.did("office", "uploaded rows deleted", dataset)


def public_requests(release: Path, folder: Path) -> list[Request]:
    """What to write for the public, of a release of any kind."""
    verbs = verbs_for(open_for(release, "manifest"))
    made: list[Request] = []
    if "page" in verbs:
        made.append(Page(release=release, out=folder / "page.html"))
    if "report" in verbs:
        made.append(Report(release=release, out=folder / "report.html"))
        made += [
            Export(release=release, out=folder / name, to=Format(form))
            for form, name in RECORDS.items()
            if "export" in verbs or form in ("registry", "label", "dpo")
        ]
    if "export" in verbs:
        made += [
            Export(release=release, out=folder / f"table.{form}", to=Format(form))
            for form in ("csv", "parquet")
        ]
    return made


_KEPT: Final = (
    "created", "dataset", "kind", "method", "privacy", "receipt", "schema_digest",
    "signatures", "publishable", "versions", "population", "period",
)  # fmt: skip


_ABOUT: Final = ("title", "description", "publisher", "contact", "purpose", "licence")


def _facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What pages say of a release, from its manifest."""
    said = manifest.get("about", {})
    plan = manifest.get("plan")
    return {
        **{name: manifest[name] for name in _KEPT if name in manifest},
        "about": {name: said.get(name, "") for name in _ABOUT},
        "signatures": manifest.get("signatures", []),
        "columns": [
            {key: one.get(key) for key in ("name", "kind", "title", "units", "source")}
            for one in manifest.get("domain") or []
            if isinstance(one, dict)
        ],
        "sentences": plan.get("sentences", []) if isinstance(plan, dict) else [],
    }
