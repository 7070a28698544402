"""The files to run the service with: every option is in the example, and the unit and the image
keep what they promise."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from dpublish.server.config import Config, options

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def test_the_example_has_every_option_at_its_default_and_is_read(tmp_path: Path) -> None:
    text = (DEPLOY / "serve.toml").read_text()
    (tmp_path / "as-is.toml").write_text(text)
    Config.read(tmp_path / "as-is.toml", state=tmp_path / "office")
    everything = re.sub(r"^# (?=\[|[a-z_]+ = )", "", text, flags=re.M)
    (tmp_path / "all.toml").write_text(everything)
    read = Config.read(tmp_path / "all.toml", state=tmp_path / "office")
    assert read.oidc.client_id == "dpublish"
    said: set[str] = set()
    table = ""
    for line in everything.splitlines():
        if found := re.fullmatch(r"\[(.+)\]", line):
            table = re.sub(r"places\.\w+", "places.NAME", found[1]) + "."
        elif found := re.match(r"([a-z_]+) = ", line):
            said.add(table + found[1])
    assert said == set(options())
    for name, (default, _) in options().items():
        last = name.rpartition(".")[2]
        if default and name not in ("host", "tables") and not name.startswith("places"):
            assert f"# {last} = {default}" in text, name


def test_the_unit_runs_without_rights_and_leaves_workers_running() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "dpublish.service")
    service = dict(unit["Service"])
    assert service["User"] == "dpublish"
    assert service["KillMode"] == "process"
    assert service["ProtectSystem"] == "strict"
    assert service["NoNewPrivileges"] == "yes"
    assert "dpublish serve --config" in service["ExecStart"]


def test_the_image_has_no_root_and_keeps_everything_in_one_place() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    last = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001$", last, re.M)
    assert re.search(r"^VOLUME /state$", last, re.M)
    assert "HEALTHCHECK" in last
    assert "/health" in last
    assert "--read-only" in text
    kept = re.findall(r"(?:DPUBLISH_STATE|NUMBA_CACHE_DIR)=(\S+)", last)
    assert kept == ["/state/anchors", "/state/compiled"]
    for name in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M):
        for one in name.split():
            assert (DEPLOY.parent / one).exists(), one
