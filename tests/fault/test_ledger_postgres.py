"""PostgreSQL goes away: backends terminated, answers to COMMIT lost, the server crashed under
load."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_nursery import Nursery, check_invariants, lines, wait_for

from dpublish.errors import LedgerUnavailable
from dpublish.ledger import crashpoints, open_ledger
from dpublish.privacy.cost import Budget, Cost
from pg import Postgres

COST = Cost.pure("1/100")
BUDGET = Budget(epsilon=5)


class LosesCommits:
    """A proxy that can cut the client off after its next COMMIT went through, or keep all replies
    to itself."""

    def __init__(self, folder: Path, server: str) -> None:
        self.armed = False
        self.stalled = False
        self.lost = 0
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(f"{self._server}/.s.PGSQL.5432")
                threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
                threading.Thread(target=self._replies, args=(server, client), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.armed and b"COMMIT" in data:
                    self.armed = False
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)
                    server.sendall(data)
                    time.sleep(0.05)
                    break
                server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _replies(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if not self.stalled:
                    client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def proxy(folder: Path, postgres: Postgres) -> Iterator[LosesCommits]:
    proxy = LosesCommits(folder, postgres.socket_folder)
    yield proxy
    proxy.close()


def test_the_answer_to_a_commit_is_lost(
    folder: Path, postgres: Postgres, proxy: LosesCommits
) -> None:
    """The server committed, the client was cut off before it heard: paid once, and recognised as
    this call's own debit."""
    url = postgres.fresh_url().replace(f"host={postgres.socket_folder}", f"host={folder}")
    committed: list[int] = []
    with open_ledger(url, budget=BUDGET, create=True) as ledger:

        def arm(name: str) -> None:
            if name.endswith(".inserted"):
                committed.append(1)
                proxy.armed = True

        with crashpoints.armed(arm):
            assert ledger.debit("k", COST, {}).fresh, (
                "made by this call, even if the news of it came late"
            )
            assert (proxy.lost, len(committed)) == (1, 1), (
                "the key resolves the doubt; nothing is inserted twice"
            )
            ledger.seal("k", sha256="0" * 64, size=1, location="x")
            assert proxy.lost == 2
        assert not ledger.debit("k", COST, {}).fresh
        status = ledger.verify()
        assert (status.debits, status.sealed, status.entries) == (1, 1, 3)


def test_a_connection_cut_before_the_debit_is_repeated(
    folder: Path, postgres: Postgres, proxy: LosesCommits
) -> None:
    url = postgres.fresh_url().replace(f"host={postgres.socket_folder}", f"host={folder}")
    with open_ledger(url, budget=BUDGET, create=True) as ledger:
        for i in range(5):
            proxy.armed = True  # the read that looks for the key is cut
            assert ledger.debit(f"k{i}", COST, {}).fresh
        assert proxy.lost == 5
        assert ledger.verify().debits == 5


def test_backends_terminated_at_every_step(folder: Path, postgres: Postgres) -> None:
    url = postgres.fresh_url()
    with open_ledger(url, budget=BUDGET, create=True) as ledger:
        for i, point in enumerate(
            ("debit.locked", "debit.inserted", "debit.committed", "seal.locked", "seal.inserted")
        ):
            cuts = 0

            def cut(name: str, point: str = point) -> None:
                nonlocal cuts
                if name == point and cuts == 0:
                    cuts = postgres.terminate_backends()

            with crashpoints.armed(cut):
                assert ledger.debit(f"k{i}", COST, {}).fresh
                ledger.seal(f"k{i}", sha256="0" * 64, size=1, location="x")
            assert cuts > 0
        status = ledger.verify()
        assert (status.debits, status.sealed) == (5, 5)


def test_backends_terminated_and_server_crashed_under_load(
    folder: Path, postgres: Postgres
) -> None:
    """Every answer paid, every debit accounted for, and the children come through by themselves."""
    url, log = postgres.fresh_url(), folder / "log"
    open_ledger(url, budget=BUDGET, create=True).close()
    with Nursery() as nursery:
        children = [
            nursery.start(
                kind="work",
                url=url,
                folder=folder,
                log=log,
                cost="1/100",
                point=None,
                count=1,
                keys=[f"{i}-{j}" for j in range(30)] + [f"both-{j}" for j in range(10)],
            )
            for i in range(3)
        ]
        wait_for(log, "ready", 3)
        cut = 0
        for _ in range(5):
            time.sleep(0.08)
            cut += postgres.terminate_backends()
        shown = len(lines(log, "shown"))
        postgres.crash_and_restart()
        assert [nursery.wait(child) for child in children] == [0] * 3, log.read_text()
    assert cut > 0
    assert len(lines(log, "shown")) > shown
    with open_ledger(url) as ledger:
        check_invariants(ledger, log, folder, COST)
        assert ledger.status().debits == 100
        # Nothing died here, so nothing may be lost: a key shared by children is answered, or still
        # under way elsewhere.
        assert {key for key, _ in lines(log, "shown")} == {
            entry.key for entry in ledger.history() if entry.kind == "debit"
        }
    assert not lines(log, "unavailable")


def test_a_server_that_stays_away_refuses(
    folder: Path, proxy: LosesCommits, postgres: Postgres
) -> None:
    url = postgres.fresh_url().replace(f"host={postgres.socket_folder}", f"host={folder}")
    ledger = open_ledger(url, budget=BUDGET, create=True, patience=0.5)
    proxy.close()
    (folder / ".s.PGSQL.5432").unlink()
    postgres.terminate_backends()
    with pytest.raises(LedgerUnavailable, match="same key is safe"):
        ledger.debit("k", COST, {})
    ledger.close()


def test_a_server_that_never_replies_refuses_and_the_key_decides_later(
    folder: Path, proxy: LosesCommits, postgres: Postgres
) -> None:
    url = postgres.fresh_url().replace(f"host={postgres.socket_folder}", f"host={folder}")
    with open_ledger(url, budget=BUDGET, create=True, patience=0.2) as ledger:
        for point, fresh in (("debit.locked", True), ("debit.inserted", False)):

            def stall(name: str, point: str = point) -> None:
                proxy.stalled = name == point

            started = time.monotonic()
            with (
                crashpoints.armed(stall),
                pytest.raises(LedgerUnavailable, match="same key is safe"),
            ):
                ledger.debit(point, COST, {})
            assert time.monotonic() - started < 10
            proxy.stalled = False
            assert ledger.debit(point, COST, {}).fresh == fresh, (
                "a commit that nobody heard of is paid, and not fresh"
            )
        assert ledger.verify().debits == 2
