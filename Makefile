# Opportune: everything on a fresh machine that has Python, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev,serve,cluster,gpu
STAMP := $(VENV)/.installed

.PHONY: run test test-bounds lint install bench clean

run: install
	$(BIN)/opportune reproduce all --out out

# Two files of tests at a time.
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadfile

test: install
	$(PYTEST)

# The debug build: every access to an array is checked. What starts other processes or takes the time is left out.
test-bounds: install
	OPPORTUNE_CHECK_BOUNDS=1 $(PYTEST) -m "not browser and not cluster and not slow"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/python -m benchmarks

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src benchmarks tests -name '*.nb[ic]' -delete
