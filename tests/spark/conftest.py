"""Real Spark sessions: within one machine, as two workers in processes of their own, and Connect.

Where Java is missing these tests are skipped, and the reason says what to install; with CI=true a
skip is a failure.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# the driver's client tells of every object that is collected, whoever listens by then
logging.getLogger("py4j").setLevel(logging.WARNING)

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    if shutil.which("java") is None:
        reason = "Spark needs Java: apt-get install openjdk-17-jre-headless"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")


def started(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def session(java: None) -> Iterator[Any]:
    found = started("local[2]")
    yield found
    found.stop()


@pytest.fixture
def connect(java: None, tmp_path: Path) -> Iterator[str]:
    """The address of a Spark Connect server on the loopback interface."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        **SETTINGS,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    command = [
        str(home / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master",
        "local[2]",
        *(part for pair in settings.items() for part in ("--conf", "=".join(pair))),
        "spark-internal",
    ]
    with (tmp_path / "connect.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
        try:
            wait_for(port)
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)


def wait_for(port: int, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError("nothing answers")
