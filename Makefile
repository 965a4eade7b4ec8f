# Needs python3 (3.11 or later) with its venv module, and make. Everything else is installed into .venv, from the lock files.
PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --require-hashes --only-binary :all:

.PHONY: help demo charts bench lint test test-full lock clean

help:
	@echo "make demo       explain a fused kernel and measure it on this machine"
	@echo "make charts     add what --chart draws with (100 MB) to .venv"
	@echo "make test       every check and the everyday tests (under 6 minutes on 2 cores)"
	@echo "make test-full  the same with the long tests"
	@echo "make lint       the checks alone: style, types, room borders"
	@echo "make bench      the same kernel on larger arrays, one thread and all"
	@echo "make lock       choose and pin the newest versions again (requirements/)"
	@echo "make clean      remove .venv and everything built"

demo: $(VENV)/installed-run
	$(BIN)/fuseline explain examples/gelu.fl --measure

charts: $(VENV)/installed-charts

bench: $(VENV)/installed-run
	$(BIN)/fuseline bench examples/gelu.fl

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n $(JOBS)

test-full: lint
	$(BIN)/pytest -n $(JOBS) -m "long or not long" --hypothesis-profile=search

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make later runs start at once; each is renewed when what it was made from changes.
$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fuseline needs Python 3.11 or later; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "Python's venv module is missing; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/installed-run: $(VENV)/created requirements/run.txt pyproject.toml
	$(INSTALL) -r requirements/run.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed-run requirements/dev.txt
	$(INSTALL) -r requirements/dev.txt
	@touch $@

$(VENV)/installed-charts: $(VENV)/installed-run requirements/charts.txt
	$(INSTALL) -r requirements/charts.txt
	@touch $@

# One lock file serves every supported Python and processor, with one version of each package (so that every Python sees the
# same types) and the hashes of all its wheels.
LOCK := .venv-lock/bin/uv pip compile --quiet --upgrade --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --group build pyproject.toml

lock:
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/bin/python -m pip --disable-pip-version-check --quiet install uv
	$(LOCK) --extra dev --output-file requirements/dev.txt
	$(LOCK) --constraint requirements/dev.txt --output-file requirements/run.txt
	$(LOCK) --extra charts --constraint requirements/dev.txt --output-file requirements/charts.txt
	rm -rf .venv-lock
