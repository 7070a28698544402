"""The service's tables are those that are declared, and the log is only appended to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from dpublish.server.store import ACTIONS, META, STEPS, STEPS_DONE, Store, StoreUnavailable
from pg import shared_postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'office.sqlite'}"
        return
    with shared_postgres() as server:
        yield server.fresh_url()


def test_the_steps_make_the_tables_that_are_declared(url: str) -> None:
    store = Store(url)
    with store.look() as connection:
        seen = inspect(connection)
        assert set(seen.get_table_names()) >= set(META.tables)
        for name, table in META.tables.items():
            found = {one["name"]: one["nullable"] for one in seen.get_columns(name)}
            assert set(found) == set(table.c.keys()), name
            wanted = {one.name: one.nullable for one in table.c if not one.primary_key}
            assert {one: found[one] for one in wanted} == wanted, name
            keys = set(seen.get_pk_constraint(name)["constrained_columns"])
            assert keys == {one.name for one in table.primary_key}, name
    store.close()


def test_opening_again_changes_nothing_and_a_newer_database_is_left_alone(url: str) -> None:
    for _ in range(2):
        store = Store(url)
        assert [row["step"] for row in store.rows(STEPS_DONE)] == list(range(1, len(STEPS) + 1))
        store.close()
    store = Store(url)
    with store.change() as connection:
        connection.execute(text("INSERT INTO steps_done VALUES (999, 'later')"))
    store.close()
    with pytest.raises(StoreUnavailable, match="newer version"):
        Store(url)


def test_the_log_of_actions_is_a_chain_that_nobody_changes(url: str) -> None:
    store = Store(url)

    def act(who: str) -> None:
        for number in range(10):
            store.did(who, "did", f"thing {number}", note="é <b>")

    threads = [threading.Thread(target=act, args=(f"person {one}",)) for one in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(store.actions()) == 40
    assert store.broken_action() is None
    for verb in ("UPDATE actions SET actor = 'x'", "DELETE FROM actions"):
        with pytest.raises(DBAPIError), store.change() as connection:
            connection.execute(text(verb))
    assert len(store.actions()) == 40
    store.close()


def test_a_line_that_was_changed_behind_its_back_is_found(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'office.sqlite'}")
    for number in range(5):
        store.did("ada", "did", str(number))
    with store.change() as connection:
        connection.execute(text("DROP TRIGGER actions_no_UPDATE"))
        connection.execute(ACTIONS.update().where(ACTIONS.c.seq == 3).values(actor="bob"))
    assert store.broken_action() == 3
    store.close()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(Exception, match="not understood"):
        Store("nonsense")


@pytest.mark.parametrize("done", range(1, len(STEPS)))
def test_an_older_database_is_led_to_todays_tables_and_keeps_its_rows(
    url: str, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("dpublish.server.store.STEPS", STEPS[:done])
        store = Store(url)
        store.did("ada", "did", "something")
        store.close()
    store = Store(url)
    assert [row["step"] for row in store.rows(STEPS_DONE)] == list(range(1, len(STEPS) + 1))
    assert [row["actor"] for row in store.actions()] == ["ada"]
    assert store.broken_action() is None
    with store.look() as connection:
        assert set(inspect(connection).get_table_names()) >= set(META.tables)
    store.close()
