# `make demo` and `make test` set everything up themselves: they need Python, pip, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-learn lint types check format clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(STAMP)  ## import the sample order book, train, back-test, write runs/demo/report.html
	$(BIN)/foxhunt demo

test: $(STAMP)  ## every test except the long learning runs
	$(BIN)/python -m pytest -n 2 -m "not learn_long"

test-learn: $(STAMP)  ## learning runs over all seeds
	$(BIN)/python -m pytest -m "learn or learn_long" tests/learn

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

check: lint types test  ## what CI runs

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info
