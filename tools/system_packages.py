"""What tests need of the system and PyPI does not have: a browser, and Java for Spark.

    python tools/system_packages.py

Installs what is missing with apt-get where that can be done (Debian, as root), and otherwise says
what to install. It never fails: tests that miss something are skipped and say so, and with CI=true
they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess

NEEDED = {"chromium": "chromium", "java": "openjdk-17-jre-headless"}
"""A command, and the Debian package that has it."""


def main() -> None:
    missing = [package for command, package in NEEDED.items() if shutil.which(command) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(f"Not here, and not installed by make: {', '.join(missing)} (names of Debian).")
        print("Tests that need them are skipped. Install them to run these tests as well.")
        return
    print(f"Installing {', '.join(missing)} ...", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", *missing]):
        done = subprocess.run(
            ["apt-get", *command], env=quiet, stdout=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            print(f"apt-get {command[0]} failed; tests that need {', '.join(missing)} are skipped.")
            return


if __name__ == "__main__":
    main()
