# `make demo` and `make test` need only Python 3.11 or later; packages are installed in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint slow faults soak memory speed docs clean

demo: .venv/installed  ## train on a generated corpus, evaluate, draw the attention weights
	$(BIN)/python train.py --config=configs/luong2015.py:data=dates --config.seed=2 --workdir=runs/demo
	$(BIN)/python eval.py --workdir=runs/demo --split=test

test: lint  ## run the linter, the type checker and all tests except the slow ones
	$(BIN)/pytest -m "not slow" -n 3 --dist loadfile --no-loadscope-reorder

lint: .venv/installed-dev  ## run the linter and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

slow: .venv/installed-dev  ## run the tests that take minutes
	$(BIN)/pytest -m slow --ignore=tests/test_faults.py

faults: .venv/installed-dev  ## damage files, kill programs, fill the disk, lose peers; print a table
	$(BIN)/python -m faults.campaign
	FAULTS=25 $(BIN)/pytest -s tests/test_faults.py tests/training/test_checkpoints.py

soak: .venv/installed  ## train for half an hour and record the memory in docs/soak.png
	$(BIN)/python -m benchmarks.soak

memory: .venv/installed  ## measure the memory for preparing and reading five million sentence pairs
	$(BIN)/python -m benchmarks.corpus_memory

speed: .venv/installed  ## measure speed, also of PyTorch if installed, and write docs/performance.md
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.report

docs: .venv/installed-dev  ## build the documentation site: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/installed: requirements-core.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Alignax needs Python 3.11 or later: make PYTHON=python3.12 ...")'
	@echo "Installing packages into .venv; this can take some minutes."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-core.txt
	@touch $@

.venv/installed-dev: requirements-dev.txt requirements.txt .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

clean:  ## remove .venv, site and all caches, but not runs/
	rm -rf .venv cache site .pytest_cache .ruff_cache .hypothesis
