# Two commands do everything from a fresh clone: `make up` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
STAGED := build/staged
# Some containers forbid to keep compiled modules; every program would then compile all of Dagster at each start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up down test test-ssh test-slurm install install-dev lint typecheck imports format lock clean

up: $(VENV)/.runtime
	@$(BIN)/lucid up

down:
	@if [ -x $(BIN)/lucid ]; then $(BIN)/lucid down; else echo "Nothing is installed here, so nothing runs."; fi

install: $(VENV)/.runtime
install-dev: $(VENV)/.dev

$(VENV)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...; this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock

$(VENV)/.runtime: $(VENV)/bin/uv requirements/runtime.lock pyproject.toml
	@if [ ! -e $(VENV)/.dev ]; then $(UV) pip sync --python $(BIN)/python --quiet --require-hashes requirements/runtime.lock requirements/uv.lock requirements/build.lock; fi
	$(UV) pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/uv requirements/dev.lock pyproject.toml
	$(UV) pip sync --python $(BIN)/python --quiet --require-hashes requirements/dev.lock requirements/uv.lock
	$(UV) pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.runtime

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.dev
	@$(BIN)/python tests/support_layout/staged.py $(STAGED) >/dev/null
	$(BIN)/basedpyright -p $(STAGED) --pythonpath $(abspath $(BIN)/python)

imports: $(VENV)/.dev
	@$(BIN)/python tests/support_layout/staged.py $(STAGED) >/dev/null
	cd $(STAGED) && PYTHONSAFEPATH= PYTHONPATH=$(abspath $(STAGED)) $(abspath $(BIN))/lint-imports --no-cache

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint typecheck imports
	$(BIN)/pytest -m "not service and not long" -n 2 --dist loadgroup
	$(BIN)/pytest -m "service and not long"

# Against the real programs (see .ci/run for what must be installed); `make test` runs the shorter part of both.
test-ssh: $(VENV)/.dev
	$(BIN)/pytest -m ssh --durations=10

test-slurm: $(VENV)/.dev
	$(BIN)/pytest -m slurm --durations=10

lock:
	$(UV) pip compile -q --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header pyproject.toml -o requirements/runtime.lock
	$(UV) pip compile -q --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header pyproject.toml requirements/dev.in -o requirements/dev.lock
	$(UV) pip compile -q --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header requirements/build.in -o requirements/build.lock
	echo uv | $(UV) pip compile -q --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header - -o requirements/uv.lock

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
