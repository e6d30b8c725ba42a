# Two commands do all the set-up: `make chat` and `make test`. They need python3 with pip, and nothing else.
PYTHON ?= python3
VENV   ?= .venv
WORKERS ?= 3
BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check --quiet
# The distribution was named `nacre` before; left in place, its uninstallation would remove the command of the new one.
UNINSTALL_OLD = $(PIP) uninstall --yes nacre 2>/dev/null || true

.PHONY: chat test test-all soak check format lint types imports bench prompts-lock docs release site clean

chat: $(VENV)/.run
	@$(BIN)/nacre chat $(ARGS)

# Unit tests, contracts and stories, with a fifth of the examples: at most 4 minutes on 2 cores.
test: $(VENV)/.dev
	TEST_SCALE=0.2 $(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(ARGS)

# Everything: also storms, crashes, other clients and smoke runs of the benchmarks.
test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

# Storms and property tests at twenty times the counts, by hand; the result is committed.
soak: $(VENV)/.dev
	$(BIN)/python -m bench.soak $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	TEST_SCALE=0.2 $(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

prompts-lock: $(VENV)/.dev
	$(BIN)/python tests/prompts/lock.py

docs: $(VENV)/.dev
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_python.py
	$(BIN)/python docs/make_settings.py
	$(BIN)/python docs/make_api.py
	$(BIN)/python docs/make_typescript.py
	$(BIN)/python docs/make_measured.py
	$(BIN)/python docs/make_server_load.py
	$(BIN)/python docs/make_leaderboard.py

# The documentation as a website in site/, without a network; a broken link is an error.
site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Wheel, sdist and list of components in dist/, checked; the same commit gives the same bytes.
release: $(VENV)/.dev
	$(BIN)/python .ci/release.py $(ARGS)

bench: $(VENV)/.dev
	$(BIN)/python -m bench.run $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	@$(UNINSTALL_OLD)
	@echo "installing nacre into $(VENV), once; this takes about half a minute"
	$(PIP) install -c constraints.txt -e '.[tui]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@$(UNINSTALL_OLD)
	@echo "installing the development tools into $(VENV), once; this takes some minutes"
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
