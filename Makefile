# The course's commands. `make` alone lists them; the work is done in tools/ and by the torchcourse command.
PYTHON ?= python3
WORKERS ?= 3
MUTANTS ?= 10000
TEST_SECONDS ?= 2400
ARGS ?=
BIN := .venv/bin
SPELLED := src autograde solutions tools docs README.md CONTRIBUTING.md CHANGELOG.md

.DEFAULT_GOAL := help
.PHONY: help setup lab test test-all build lint screenshots clean pins

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | while IFS='	' read -r name text; do printf 'make %-10s %s\n' "$$name" "$$text"; done
	@echo "The first of them sets up .venv: about 3.2 GB to download and 6.5 GB on disk (macOS: 0.5 and 2 GB)."
	@echo "Another Python: make setup PYTHON=python3.12. Some tests: make test ARGS='tests/test_setup.py -k disk'."

setup: ## make .venv and install everything in it; quick when nothing changed
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || { \
	  echo "set-up stopped: '$(PYTHON)' is missing or too old: install Python 3.11 to 3.14, or add PYTHON=/path/to/python3." >&2; exit 1; }
	@$(PYTHON) -m tools.setup

lab: setup ## open the course in JupyterLab
	@echo "lab: opening JupyterLab; Ctrl-C here closes it"
	@$(BIN)/torchcourse lab $(ARGS)

test: setup ## run all tests
	@echo "test: running all tests, $(WORKERS) at a time"
	@$(BIN)/python -m pytest -n $(WORKERS) --timeout $(TEST_SECONDS) --durations 20 $(ARGS)

test-all: export TORCHCOURSE_KILL_EVERY = 1
test-all: lint ## lint, run all tests with classes of twenty, prove the course and the grader once more
	@TORCHCOURSE_CLASS=20 $(MAKE) --no-print-directory test TEST_SECONDS=7200
	$(BIN)/torchcourse build
	git diff --exit-code --stat notebooks/
	$(BIN)/torchcourse verify
	$(BIN)/python -m benchmarks.interrupted
	$(BIN)/python -m benchmarks.mutants --count $(MUTANTS)

build: setup ## rebuild the notebooks from solutions/
	@$(BIN)/torchcourse build $(ARGS)

lint: setup ## ruff, mypy, codespell and links
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell $(SPELLED)
	$(BIN)/python -m tools.links

screenshots: setup ## take the README's pictures anew, from the browser tests
	@TORCHCOURSE_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/browser -q

pins: ## write constraints.txt and environment.yml anew from what .venv holds
	@$(BIN)/python -m tools.pins

clean: ## remove caches and built packages; .venv and your notebooks stay
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src autograde tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
