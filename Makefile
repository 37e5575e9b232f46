# `make demo` and `make test` set everything up themselves: they need Python, pip, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RUN := $(VENV)/.installed-demo
DEV := $(VENV)/.installed-dev

.PHONY: demo test test-learn lint types audit audit-update audit-mutate check format clean

$(RUN): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[demo,databento]'
	touch $@

$(DEV): $(RUN)
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps hftbacktest
	touch $@

demo: $(RUN)  ## import the sample order book, train, back-test, write runs/demo/report.html
	$(BIN)/foxhunt demo

test: $(DEV)  ## every test except the long learning runs
	$(BIN)/python -m pytest -n 2 -m "not learn_long"

test-learn: $(DEV)  ## learning runs over all seeds
	$(BIN)/python -m pytest -n 2 -m "learn or learn_long" tests/learn

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

audit: $(DEV)  ## is the checked-in audit of our own agent still true?
	OMP_NUM_THREADS=1 $(BIN)/foxhunt audit --check docs/h_s2_consumers_audit.md

audit-update: $(DEV)  ## write it again after a change of the agent
	OMP_NUM_THREADS=1 $(BIN)/foxhunt audit audits/agent.py:full --out docs/h_s2_consumers_audit.md

audit-mutate: $(DEV)  ## plant faults in the agent and count those that the auditor finds; long
	OMP_NUM_THREADS=1 $(BIN)/foxhunt audit audits/agent.py:full --mutate

check: lint types audit test  ## what CI runs

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info
