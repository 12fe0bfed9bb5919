# Opportune: everything on a fresh machine that has Python, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev,serve,cluster
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
CORE := $(VENV)/.installed-core
SERVED := $(VENV)/.installed-serve
ALL := $(VENV)/.installed-$(EXTRAS)
LOWEST := .venv-lowest
NEWEST := .venv-newest

# The documentation site: pages, tutorials that are run, reference made from the code.
SITE = -W --keep-going -q -d out/doctrees docs out/docs

.PHONY: run demo docs test test-fast test-bounds test-core test-lowest test-newest lint install bench bench-service torture release clean

# Needs the package itself and what it depends on, no extras.
run: $(CORE)
	$(BIN)/opportune reproduce all --out out

# A study in the middle of its course, in the browser; needs what serves it, nothing for development.
demo: $(SERVED)
	$(BIN)/opportune demo

docs: install
	$(BIN)/python -m sphinx $(SITE)
	@echo "open out/docs/index.html"

# Two files of tests at a time.
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadfile --durations=15
# What starts other processes or takes the time is left out.
FAST = -m "not browser and not cluster and not slow"

test: install
	$(PYTEST)

# For work in progress: decisions, problems, studies, live agents, the service's state; nothing that starts a process.
test-fast: install
	$(PYTEST) $(FAST) tests/test_golden.py tests/test_architecture.py tests/test_policy.py tests/test_agreement.py \
		tests/algorithm tests/engine/test_layout.py tests/problems tests/analysis tests/study tests/live \
		tests/recommenders tests/revealers tests/service/state tests/service/accounts

# Every test by the debug build, in which every access to an array is checked; and what runs compiled code itself by the
# plain one. Together they are what must pass before a change lands: other tests need not run twice.
test-bounds: install
	OPPORTUNE_CHECK_BOUNDS=1 $(PYTEST)

test-core: install
	$(PYTEST) tests/engine tests/algorithm tests/revealers tests/recommenders tests/worlds tests/simulation tests/live \
		tests/test_agreement.py tests/test_simulate.py tests/test_shared_budget.py tests/test_pace.py

# The lowest versions that pyproject.toml allows, in an environment of their own: problems, studies, simulations, live
# agents, metrics, the command line, Gymnasium, and the service by its demonstration; not the tests of Ctrl-C during a
# simulation, which go by how long writing takes with present versions.
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -n 2 --dist loadfile $(FAST) --ignore=tests/cli/test_interrupts.py \
		tests/problems tests/study tests/analysis tests/live tests/cli tests/test_simulate.py tests/test_policy.py \
		tests/test_gym.py tests/service/test_demo.py::test_the_command

# The newest of everything that pyproject.toml allows, without extras: what needs none must not import any.
test-newest: $(NEWEST)/.installed
	$(NEWEST)/bin/python -m pytest -n 2 --dist loadfile $(FAST) -p no:service_databases --ignore=tests/cli/test_interrupts.py \
		tests/problems tests/study tests/analysis tests/live tests/cli tests/test_simulate.py tests/test_policy.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/python -m benchmarks

# Decisions a second over HTTP, beside what the databases can do; on a quiet machine.
bench-service: install
	$(BIN)/python -m benchmarks.service

# Servers killed a thousand times, and the API tried with many more requests.
torture: install
	OPPORTUNE_TORTURE=1000 OPPORTUNE_EXAMPLES=100 $(BIN)/python -m pytest tests/service/record/test_crashes.py tests/service/api/test_schema.py

# Builds the wheel and the sdist, checks what they say, tries them in empty environments on every supported Python that
# is here (about six minutes for each on two cores), and prints what is left to do by hand.
release: install
	$(PIP) -e '.[$(EXTRAS),release]'
	$(BIN)/python .ci/release.py

install: $(ALL)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	touch $(CORE)

$(SERVED): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[serve]'
	touch $(SERVED) $(CORE)

$(ALL): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[$(EXTRAS)]'
	touch $(ALL) $(CORE) $(SERVED)

$(LOWEST)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[gym,serve]'
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python -c constraints.txt pytest pytest-xdist hypothesis jsonschema
	touch $@

$(NEWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade -e . pytest pytest-xdist hypothesis jsonschema
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(NEWEST) out build dist docs/learn docs/reference .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src benchmarks tests -name '*.nb[ic]' -delete
