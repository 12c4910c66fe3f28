# make demo, make test: each sets up what it needs. PYTHON=/path/to/python3.12 names the interpreter, VENV= the folder.
VENV ?= .venv
BIN := $(VENV)/bin
BAYESFAIR_DATA ?=
export BAYESFAIR_DATA

.PHONY: demo test lint clean

demo: $(VENV)/.installed
	$(BIN)/bayesfair demo --out demo-output

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.installed-test
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

$(BIN)/python:
	python=$$(tools/find-python) && "$$python" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) demo-output build dist .pytest_cache .ruff_cache *.egg-info
