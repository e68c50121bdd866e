# The course's commands. `make` alone lists them.
WORKERS ?= 3
MUTANTS ?= 10000
TEST_SECONDS ?= 2400
MINUTES ?= 10
ARGS ?=
BIN := .venv/bin
SPELLED := src autograde solutions tools tests/*/*.py benchmarks docs .github *.md *.cff
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --timeout $(TEST_SECONDS)
export PYTHON
# Hundreds of processes that tests start would each compile the modules of the course again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lab test test-fast test-all fuzz build lint format docs dist screenshots clean pins

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | \
	  while IFS='	' read -r name text; do printf 'make %-11s %s\n' "$$name" "$$text"; done
	@echo "The first command makes .venv: about 3.2 GB to download and 6.5 GB on disk (macOS: 0.5 and 2 GB)."
	@echo "Another Python: make setup PYTHON=python3.12. Some tests: make test ARGS='tests/house/test_setup.py -k lock'."

setup: ## install everything in .venv, for instructors and authors; quick when nothing changed
	@tools/setup.sh test

lab: ## install what learners need in .venv, and open the course in JupyterLab
	@tools/setup.sh lab
	@echo "lab: opening JupyterLab; Ctrl-C here closes it"
	@$(BIN)/torchcourse lab $(ARGS)

test: setup ## run all tests
	@echo "test: running all tests, $(WORKERS) at a time"
	@$(PYTEST) --durations 20 $(ARGS)

test-fast: setup ## run the tests that are not marked slow
	@$(PYTEST) -m "not slow" $(ARGS)

test-all: export TORCHCOURSE_KILL_EVERY = 1
test-all: lint ## lint, run all tests with classes of twenty, prove the course and the grader again
	@TORCHCOURSE_CLASS=20 $(MAKE) --no-print-directory test TEST_SECONDS=7200
	$(BIN)/torchcourse build
	git diff --exit-code --stat notebooks/ src/torchcourse/stored/
	$(BIN)/torchcourse verify --anew
	$(BIN)/python -m benchmarks.interrupted
	$(BIN)/python -m benchmarks.mutants --count $(MUTANTS)

fuzz: setup ## hand made-up input to all that reads what strangers write, for MINUTES
	@$(BIN)/python -m benchmarks.fuzz --minutes $(MINUTES) $(ARGS)

build: setup ## rebuild the notebooks from solutions/
	@$(BIN)/torchcourse build $(ARGS)

lint: setup ## ruff, mypy, imports, codespell and deptry
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell $(SPELLED)
	$(BIN)/deptry src --ignore DEP002 --optional-dependencies-dev-groups author,cluster,docs,postgres,test
	$(BIN)/deptry autograde --ignore DEP002
	$(BIN)/deptry . --ignore DEP004

format: setup ## ruff format
	$(BIN)/ruff format .

docs: setup ## build the documentation into build/docs/html; ARGS='-D nb_execution_mode=off' leaves outputs out
	@echo "docs: each lesson that has changed is executed, a minute or more for each"
	@$(BIN)/python -m tools.site build/docs $(ARGS)
	@echo "docs: open build/docs/html/index.html"

dist: setup ## build the wheel and the source distribution into dist/
	$(BIN)/uv build --quiet --build-constraints constraints.txt
	@ls -sh dist

screenshots: setup ## retake the README's pictures in the browser tests
	@TORCHCOURSE_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/browser -q

pins: ## resolve constraints.txt again from pyproject.toml; with ARGS=--upgrade to newer versions
	@uv=$(BIN)/uv; [ -x $$uv ] || uv=uv; $$uv pip compile --quiet --universal --python-version 3.11 --all-extras \
	  --no-annotate --custom-compile-command "make pins" pyproject.toml --output-file constraints.txt $(ARGS)

clean: ## remove caches and built packages; .venv and your notebooks stay
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src autograde tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
