# Alignax. `make demo` and `make test` need Python 3.11 or later and nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint slow faults soak memory speed docs clean

demo: .venv/installed  ## train on the embedded corpus, score it, draw its attention
	$(BIN)/python train.py --config=configs/luong2015.py:data=dates --workdir=runs/demo
	$(BIN)/python eval.py --workdir=runs/demo --split=test

test: lint  ## lint, types and the whole suite but the slow tests
	$(BIN)/pytest -m "not slow" -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

slow: .venv/installed-dev  ## tests that take minutes
	$(BIN)/pytest -m slow --ignore=tests/test_faults.py

faults: .venv/installed-dev  ## kills a training 25 times, damages checkpoints, fills a disk
	FAULTS=25 $(BIN)/pytest -s tests/test_faults.py tests/training/test_checkpoints.py

soak: .venv/installed  ## trains for half an hour and watches its memory: docs/soak.png
	$(BIN)/python -m benchmarks.soak

memory: .venv/installed  ## prepares five million pairs and measures the memory that took
	$(BIN)/python -m benchmarks.corpus_memory

speed: .venv/installed  ## measures speed here, beside PyTorch where it is installed: docs/performance.md
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.report

docs: .venv/installed-dev  ## builds the documentation site: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/installed: requirements-core.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Alignax needs Python 3.11 or later: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-core.txt
	@touch $@

.venv/installed-dev: requirements-dev.txt requirements.txt .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

clean:  ## removes what the commands above made, but not runs/
	rm -rf .venv cache site .pytest_cache .ruff_cache .hypothesis
