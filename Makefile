# make demo     set up, then publish, query, plot and verify a small release
# make demo-serve  set up, then start the office with invented patients and print its address
# make test     set up, then lint, types and all tests (about twelve minutes on 2 idle cores)
# make test-lowest  all tests with the lowest versions that pyproject.toml allows
# make test-newest  all tests on the newest Python that all dependencies have wheels for
# make nightly  all tests and the long audits, fuzzing and fault runs, with the time of each part
# make bench    the benchmarks (figures in build/bench); goes on where it was interrupted
# make docs-site  the documentation as a site that needs no network (build/site)
# make proofs   refresh the code hashes in proof files, after you have read the proofs again

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BENCH  := build/bench
NEWEST ?= python3.13

.DEFAULT_GOAL := help
.PHONY: help setup system demo demo-serve test test-lowest test-newest lint nightly bench proofs docs docs-site pictures clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "dpublish needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,bench]'
	@touch $(STAMP)

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/dpublish demo --out demo-output

demo-serve: $(STAMP)
	$(BIN)/python tools/demo_office.py --state demo-office

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

system: $(STAMP)
	@$(BIN)/python tools/system_packages.py

test: lint system
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not nightly"

test-lowest: $(STAMP) system
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest --resolution lowest-direct --editable '.[test]'
	build/lowest/bin/python -m pytest -n 2 --dist worksteal -m "not nightly"

test-newest: system
	@command -v $(NEWEST) > /dev/null || { echo "There is no $(NEWEST) here: make test-newest NEWEST=python3.13"; exit 1; }
	$(MAKE) test PYTHON=$(NEWEST) VENV=build/newest

nightly: $(STAMP) system
	$(BIN)/python tools/nightly.py

bench: $(STAMP)
	@mkdir -p $(BENCH)
	$(BIN)/python benchmarks/run.py --out $(BENCH) --resume

proofs: $(STAMP)
	$(BIN)/python tools/proofs.py --write

docs: $(STAMP)
	$(BIN)/python tools/cli_reference.py --write
	$(BIN)/python tools/method_reference.py --write

docs-site: $(STAMP)
	$(BIN)/python tools/docs_site.py

pictures: $(STAMP)
	$(BIN)/python tools/pictures.py
	$(BIN)/python tools/office_picture.py
	$(BIN)/python tools/page_screenshots.py

clean:
	rm -rf $(VENV) build dist demo-output demo-office .mypy_cache .ruff_cache .pytest_cache .hypothesis
