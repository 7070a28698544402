"""The office in a real browser: every flow from a schema to the public page, by the people who do
it; nothing inline, nothing from elsewhere, no serious finding of axe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from office_picture import enter, running

HOSTILE = "<script>window.hit=1</script>\"'><img src=x onerror=window.hit=1>{{7*7}}"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    folder = tmp_path_factory.mktemp("office")
    before = os.environ.get("DPUBLISH_STATE")
    os.environ["DPUBLISH_STATE"] = str(folder / "anchors")
    with running(folder / "office", publish=False) as found:
        yield found
    if before is None:
        del os.environ["DPUBLISH_STATE"]
    else:
        os.environ["DPUBLISH_STATE"] = before


class Visit:
    """Somebody's browser. Everything that it complains about is a failure."""

    def __init__(self, browser: Any, address: str, name: str | None = None) -> None:
        self.address = address
        self.context = browser.new_context(viewport={"width": 1180, "height": 860})
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._asked)
        self.page.set_default_timeout(90_000)
        if name is not None:
            enter(self.page, address, name)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            self.problems.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def go(self, path: str) -> Any:
        answer = self.page.goto(self.address + path)
        assert answer.status < 400, path
        self.look()
        return answer

    def look(self) -> None:
        """No serious finding of axe, no script of anybody's, nothing from elsewhere."""
        found = Axe().run(self.page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, [(one["id"], one["nodes"][0]["html"]) for one in serious]
        assert self.page.evaluate("window.hit") is None
        assert self.problems == []
        assert self.elsewhere == []

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()
        self.page.wait_for_load_state()

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label).first.fill(text)

    def job(self) -> None:
        """Wait, as a person does, until the page says that the job is over."""
        self.page.wait_for_url("**/jobs/*")
        self.page.locator(".badge.done, .badge.failed, .badge.lost").first.wait_for()
        self.page.wait_for_load_state()
        assert self.page.locator(".badge.done").count(), self.page.inner_text("main")

    def text(self) -> str:
        return str(self.page.inner_text("main"))


@pytest.fixture
def visit(browser: Any, office: tuple[str, Any]) -> Iterator[Any]:
    made: list[Visit] = []

    def start(name: str | None = None) -> Visit:
        made.append(Visit(browser, office[0], name))
        return made[-1]

    yield start
    for one in made:
        one.context.close()


def test_from_a_schema_to_the_public_page(
    visit: Any, office: tuple[str, Any], tmp_path: Path
) -> None:
    admin = visit("emil")
    admin.go("/ledger")
    admin.fill("For whom", "Visitors of the clinic")
    admin.fill("Short name", "visitors")
    admin.fill("Epsilon", "2")
    admin.press("Open it, for life")
    assert "cap for life" in admin.text()

    ada = visit("ada")
    ada.go("/datasets/new")
    ada.fill("Title", f"Visits {HOSTILE}")
    ada.fill("Short name", "clinic")
    ada.page.get_by_label("Rows").select_option("data/hospital.csv")
    ada.page.get_by_label("Budget that pays").select_option("visitors")
    ada.press("Add, and declare its schema")
    ada.look()

    book = tmp_path / "book.json"
    book.write_text(
        '{"age": {"description": "Age", "values": {"min": 0, "max": 110}},'
        ' "readmitted": {"values": {"true": "yes", "false": "no"}}}'
    )
    ada.page.get_by_label("Code book").set_input_files(book)
    ada.press("Read it")
    ada.look()
    ada.page.get_by_label("Yes, or perhaps").check()
    ada.fill("Column that says which rows belong", "patient")
    ada.fill("At most how many rows", "3")
    ada.page.get_by_label("Yes: a patient's presence").check()
    ada.fill("How many people", "10000")
    ada.fill("Whose data is it?", "visitors of the clinic")
    ada.page.locator("input[name='dataset.publisher']").fill(HOSTILE)
    ada.page.locator("input[name='columns.0.bins']").fill("6")
    ada.page.locator("input[name='columns.0.source']").fill("the form")
    ada.page.get_by_role("button", name="Check and put in force").first.click()
    ada.page.wait_for_url("**/datasets/clinic")
    ada.look()
    assert "all rows that share one value of 'patient'" in ada.text()

    ada.press("Check the data")
    ada.job()
    ada.page.get_by_role("link", name="See what was found").click()
    ada.look()
    assert "Private view" in ada.text()
    ada.press("Delete what was found")

    ada.go("/datasets/clinic/plan")
    ada.page.get_by_label("age", exact=True).check()
    ada.page.get_by_label("Your questions").fill("age >= 65")
    ada.fill("Epsilon", "0.5, 1")
    ada.press("Rehearse on stand-in rows")
    ada.job()
    ada.look()
    assert "What answers would look like" in ada.text()
    ada.go("/datasets/clinic/plan")
    ada.page.get_by_label("age", exact=True).check()
    ada.press("Show the plan")
    ada.look()
    assert "What this means for one person" in ada.text()
    ada.fill("Title of the release", f"Ages {HOSTILE}")
    ada.page.locator("input[name=release]").fill("ages")
    ada.fill("Why", HOSTILE)
    ada.press("Propose this release")
    ada.look()
    where = ada.page.url.removeprefix(office[0])
    assert "Another approver decides" in ada.text()

    ben = visit("ben")
    ben.go("/proposals")
    ben.go(where)
    ben.press("Approve and make the release")
    ben.job()
    ben.look()

    ada.go("/office/releases/ages")
    ada.press("Publish")
    ada.job()
    ada.go("/office/releases/ages")

    public = visit()
    public.go("/?q=ages")
    public.page.get_by_role("link", name="Ages").click()
    public.page.wait_for_url("**/releases/ages")
    public.look()
    assert HOSTILE in public.text()
    assert public.context.cookies() == []
    public.page.get_by_role("link", name="Open the page and ask").click()
    public.page.wait_for_url("**/page.html")
    assert public.problems == []
    assert "rows (95% limits" in public.page.inner_text("body")
    with public.page.expect_download() as got:
        public.page.evaluate(f"location.href = '{office[0]}/releases/ages/ages.dpr'")
    assert Path(got.value.path()).read_bytes()[:2] == b"PK"

    cleo = visit("cleo")
    for path in ("", "/ledger", "/releases", "/proofs", "/runs", "/actions"):
        cleo.go(f"/audit{path}")
    cleo.go("/ledger/visitors")
    assert "proposed by ada" in cleo.text()

    ada.go("/office/releases/ages")
    ada.fill("Reason, shown in public", HOSTILE)
    ada.press("Withdraw")
    ada.look()
    later = visit()  # the first one may show what it has for a minute
    later.page.goto(f"{office[0]}/releases/ages")
    assert "stays spent" in later.text()
    later.look()


def test_people_and_tokens(visit: Any) -> None:
    admin = visit("emil")
    admin.go("/accounts")
    admin.fill("Account name", "gus")
    admin.fill("Shown as", HOSTILE)
    admin.page.locator("form[action='/accounts'] input[value=curator]").check()
    admin.press("Add, and make a link")
    admin.look()
    link = admin.page.locator(".secret").inner_text()
    guest = visit()
    guest.page.goto(link)
    guest.look()
    guest.press("Come in")
    guest.look()
    guest.fill("New password", "a password of some length")
    guest.fill("The same again", "a password of some length")
    guest.press("Save")
    guest.fill("What it is for", HOSTILE)
    guest.page.locator("input[name=roles][value=curator]").check()
    guest.press("Make a token")
    guest.look()
    assert guest.page.locator(".secret").inner_text().startswith("dpo_")
    guest.press("Log out")
    again = visit()
    again.page.goto(link)
    again.press("Come in")
    assert "used already" in again.text()


def test_a_researcher_asks_at_a_desk(visit: Any, office: tuple[str, Any]) -> None:
    ada = visit("ada")
    ada.go("/datasets/visits-2023/desk")
    ada.fill("Epsilon", "2")
    ada.fill("Settings", "columns=emergency\nmax_hard=2")
    ada.press("Show what it would promise")
    ada.look()
    ada.fill("Title", f"Emergencies {HOSTILE}")
    ada.fill("Short name", "emergencies")
    ada.press("Propose this desk")
    ada.look()
    where = ada.page.url.removeprefix(office[0])
    ben = visit("ben")
    ben.go(where)
    ben.press("Approve and open the desk")
    ben.job()
    dora = visit()
    enter(dora.page, dora.address, "dora", "**/desk")
    dora.look()
    assert "no desk that you may ask at" in dora.text()
    ada.go("/desk/emergencies")
    ada.fill("Account name", "dora")
    ada.fill("Questions", "2")
    ada.press("Give a seat")
    ada.look()
    dora.go("/desk/emergencies")
    assert "questions left to you, of 2" in dora.text()
    assert "What it promises" in dora.text()
    dora.fill("How many rows meet this condition?", "emergency = maybe")
    dora.press("Ask")
    assert dora.page.get_by_role("alert").count() == 1
    for _ in range(2):
        dora.fill("How many rows meet this condition?", "emergency = true")
        dora.press("Ask")
        dora.look()
        assert "limits" in dora.text()
    assert dora.page.get_by_role("button", name="Ask").is_disabled()
    ada.go("/desk/emergencies")
    ada.page.get_by_text("Close this desk").click()
    ada.press("Close it for good")
    assert "closed" in ada.text()


def test_the_keyboard_and_a_phone_are_enough(browser: Any, office: tuple[str, Any]) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 700})
    page = context.new_page()
    page.goto(f"{office[0]}/login")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("Name").focus()
    page.keyboard.type("ada")
    page.keyboard.press("Tab")
    page.keyboard.type("only for the demo")
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets")
    for path in (
        "/",
        "/datasets",
        "/datasets/visits-2023",
        "/datasets/visits-2023/plan",
        "/ledger",
    ):
        page.goto(office[0] + path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360, (path, wide)
    context.close()
