"""Puts documentation, examples and notebooks into the package, for 'dpublish docs'. All else is in
pyproject.toml."""

import runpy
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class WithDocs(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:  # the pages are beside the source
            return
        home = Path(self.build_lib, "dpublish", "docs")
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(ROOT / "docs", home)
        shutil.copytree(ROOT / "examples", home / "examples")
        runpy.run_path(str(ROOT / "tools" / "docs_site.py"))["write_notebooks"](home / "notebooks")


setup(cmdclass={"build_py": WithDocs})
