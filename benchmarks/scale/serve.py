"""How many requests a second 'dpublish serve' answers on loopback, with the client in a process of
its own, and how long researchers wait at a desk when 64 of them ask at once.

    python benchmarks/scale/serve.py --seconds 10 --json build/bench/serve.json

The catalogue and the page of a release are asked for over kept connections; estimates are POSTs
with conditions that were asked before (warm) and ones that were not (each new). Every answer of the
desk is counted against a seat and on disk before it is sent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))


async def _connection(
    port: int, requests: list[bytes], until: float, times: list[float], wrong: list[bytes]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    place = 0
    while time.monotonic() < until and place < len(requests) * 1_000_000:
        begun = time.perf_counter()
        writer.write(requests[place % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - begun)
        if not head.startswith(b"HTTP/1.1 200"):
            wrong.append(head[:60])
        place += 1
    writer.close()


async def _load(port: int, lists: list[list[bytes]], seconds: float) -> dict[str, Any]:
    times: list[float] = []
    wrong: list[bytes] = []
    begun = time.monotonic()
    until = begun + seconds
    await asyncio.gather(*(_connection(port, one, until, times, wrong) for one in lists))
    spent = time.monotonic() - begun
    times.sort()
    return {
        "requests_per_second": round(len(times) / spent, 1),
        "p50_ms": round(1000 * times[len(times) // 2], 2),
        "p99_ms": round(1000 * times[int(len(times) * 0.99)], 2),
        "requests": len(times),
        "not_200": len(wrong),
    }


def client(order: dict[str, Any]) -> None:
    """The other process: asks, and prints what it measured."""
    lists = [[line.encode("latin-1") for line in one] for one in order["lists"]]
    print(json.dumps(asyncio.run(_load(order["port"], lists, order["seconds"]))))


def text_of(method: str, path: str, body: Any = None, token: str | None = None) -> str:
    content = "" if body is None else json.dumps(body)
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(content)}"]
    lines += ["content-type: application/json"] if content else []
    lines += [f"authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", content])


def measured(port: int, lists: list[list[str]], seconds: float) -> Any:
    order = {"port": port, "lists": lists, "seconds": seconds}
    done = subprocess.run(
        [sys.executable, __file__, "--client"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    from dpublish.server.accounts import Role
    from server.offices import Running, make_release, open_desk, set_up

    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--researchers", type=int, default=64)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--client", action="store_true")
    asked = parser.parse_args()
    if asked.client:
        client(json.loads(sys.stdin.read()))
        return
    found: dict[str, Any] = {"load_average": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        office = Running(Path(folder))
        try:
            port = int(office.url.rpartition(":")[2])
            curator, approver = office.program(Role.curator), office.program(Role.approver)
            set_up(curator, approver, office.program(Role.admin))
            make_release(curator, approver, "first")
            open_desk(curator, approver, "desk")
            every = asked.connections
            catalogue = [[text_of("GET", "/")]] * every
            found["catalogue"] = measured(port, catalogue, asked.seconds)
            page = [[text_of("GET", "/releases/first")]] * every
            found["release page"] = measured(port, page, asked.seconds)
            path = "/api/releases/first/query"
            warm = [
                [text_of("POST", path, {"conditions": [f"age >= {age}"]}) for age in range(100)]
            ] * every
            measured(port, warm[:1], 1)
            found["estimates, warm"] = measured(port, warm, asked.seconds)
            fresh = [
                [
                    text_of("POST", path, {"conditions": [f"age >= {low} and age <= {high}"]})
                    for low in range(number, 99, every)
                    for high in range(low, 99)
                ]
                for number in range(every)
            ]
            found["estimates, each new"] = measured(port, fresh, min(asked.seconds, 1))
            lists = []
            for number in range(asked.researchers):
                name = f"researcher{number}"
                token = office.token(Role.researcher, name=name)
                curator("POST", "/api/desks/desk/seats", person=name, allowed=100_000)
                questions = [
                    {"query": f"ward = '{('north', 'south')[k % 2]}'", "key": f"k{k}"}
                    for k in range(2000)
                ]
                lists.append([text_of("POST", "/api/desks/desk/ask", q, token) for q in questions])
            found["desk"] = measured(port, lists, asked.seconds)
        finally:
            office.stop()
    print(json.dumps(found, indent=1))
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
