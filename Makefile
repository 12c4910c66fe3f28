# make demo, make check, make test, make test-all, make docs, make paper: each sets up what it needs. PYTHON=/path/to/python3.12 names the interpreter, VENV= the folder.
VENV ?= .venv
BIN := $(VENV)/bin
BAYESFAIR_DATA ?=
export BAYESFAIR_DATA
# Python compiles what is imported, when it is: pip would take half a minute for all that is installed.
export PIP_NO_COMPILE := 1

# What `make check` runs besides lint: the house, laws by enumeration and the public contract. A new file of these is
# named here.
CHECK := tests/test_*.py tests/docs tests/fairness tests/gibbs/test_unit_kernels.py tests/gibbs/test_losses.py \
    tests/gibbs/test_fairlet_kernels.py tests/fairlets/test_rectangular_loop.py tests/engines/test_every_engine.py tests/models/test_labels.py

.PHONY: demo check test test-all lint docs notebooks paper clean

demo: $(VENV)/.installed
	$(BIN)/bayesfair demo --out demo-output --overwrite

# Before every commit. Programs that an earlier run compiled are kept in the user's cache folder; the first run takes longer.
check: lint
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" $(CHECK)

# Every law, planted bug and public function, on the cases that could break it: some minutes.
test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Everything.
test-all: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 10

# Code, its format, numpydoc's validation of every public docstring, and the types that users see.
lint: $(VENV)/.installed-test
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/python -m pytest -q tests/docs/test_docstrings.py tests/packaging/test_types.py

# The site, in docs/_build/html: pages with warnings as errors, links. FAST=1: small notebooks.
docs: $(VENV)/.installed-docs
	BAYESFAIR_FAST=$(FAST) $(BIN)/python -m sphinx -n -W --keep-going -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

# Every table and figure of the papers that the data in BAYESFAIR_DATA allow, beside ours, in paper-output/: some hours.
paper: $(VENV)/.installed
	$(BIN)/python -m benchmarks.paper all

# The notebooks of examples/ with their outputs, in notebooks/.
notebooks: $(VENV)/.installed-docs
	mkdir -p notebooks
	set -e; for name in $(notdir $(basename $(wildcard examples/*.py))); do BAYESFAIR_FAST=$(FAST) PATH="$(abspath $(BIN)):$$PATH" \
	    $(BIN)/jupytext --to ipynb --execute --output notebooks/$$name.ipynb examples/$$name.py; done

$(BIN)/python:
	python=$$(tools/find-python) && "$$python" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) demo-output paper-output notebooks build dist docs/_build docs/tutorials/*.py .pytest_cache .ruff_cache *.egg-info
