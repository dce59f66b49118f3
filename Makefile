# Works on a fresh clone with nothing but Python 3.11 or later. `make help` lists the targets.
#
#   PYTHON=python3.13   the interpreter for a new .venv (remove .venv to change it)
#   PYTEST_ARGS='-k tree -x'   further arguments to pytest
#   ORACLE=0   leave torch out: the parity tests then skip. ORACLE=required: fail when it cannot be had.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_FLAGS ?= -q
PYTEST_ARGS ?=
ORACLE ?= 1
BENCH_ARGS ?=

SOURCES := specdec strategies backends tests examples benchmarks tools
# dflash pins its own dependencies far too tightly to be installed with them, and needs only torch.
ORACLE_NO_DEPS := dflash==0.1.0

.PHONY: help install demo test lint format typecheck bench docs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo       install, then run examples/demo.py"
	@echo "make test       install the test dependencies, then run pytest (ORACLE=0: without torch)"
	@echo "make lint       ruff format --check, ruff check, mypy"
	@echo "make format     let ruff format and fix what it can"
	@echo "make bench      run the benchmarks (BENCH_ARGS=...)"
	@echo "make docs       write the API reference to build/docs"
	@echo "make clean      remove .venv, builds and caches"

# --- the environment; a stamp per extra, so that nothing is installed twice until pyproject.toml changes

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "Python 3.11 or later is needed, $(PYTHON) is %d.%d: set PYTHON=" % v[:2])'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.stamp-base: pyproject.toml | $(BIN)/python
	@echo "installing specdec-jax into $(VENV)"
	@$(BIN)/python -m pip install $(PIP_FLAGS) -e .
	@touch $@

$(VENV)/.stamp-%: pyproject.toml | $(BIN)/python
	@echo "installing specdec-jax[$*] into $(VENV)"
	@$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[$*]'
	@touch $@

$(VENV)/.stamp-oracle: pyproject.toml | $(BIN)/python
	@echo "installing the parity tests' references (torch, dflash) into $(VENV)"
	@if $(BIN)/python -m pip install $(PIP_FLAGS) -e '.[oracle]' \
	    && $(BIN)/python -m pip install $(PIP_FLAGS) --no-deps '$(ORACLE_NO_DEPS)'; then touch $@; \
	elif [ '$(ORACLE)' = required ]; then exit 1; \
	else echo "the references cannot be installed here: the parity tests will skip"; fi

install: $(VENV)/.stamp-base

demo: $(VENV)/.stamp-base
	$(BIN)/python examples/demo.py

test: $(VENV)/.stamp-test $(if $(filter 0,$(ORACLE)),,$(VENV)/.stamp-oracle)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.stamp-lint
	$(BIN)/ruff format --check $(wildcard $(SOURCES))
	$(BIN)/ruff check $(wildcard $(SOURCES))
	$(BIN)/python tools/typecheck.py

typecheck: $(VENV)/.stamp-lint
	$(BIN)/python tools/typecheck.py

format: $(VENV)/.stamp-lint
	$(BIN)/ruff check --fix-only $(wildcard $(SOURCES))
	$(BIN)/ruff format $(wildcard $(SOURCES))

bench: $(VENV)/.stamp-base
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

docs: $(VENV)/.stamp-docs
	$(BIN)/pdoc --docformat google -o build/docs specdec specdec.strategies specdec.backends

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(wildcard $(SOURCES)) -name __pycache__ -type d -prune -exec rm -rf {} +
