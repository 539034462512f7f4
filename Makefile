# All commands of this repository. `make help` lists them; the scripts are in scripts/.
# POSIX make and sh. Nothing here needs root, Docker, Node or a database.

ARGS =
BIN = .venv/bin
SETUP = sh scripts/install.sh

.PHONY: help up test test-all check install install-dev bench format docs translations clean

help: ## list all commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

up: ## install, start the server, run a first job (ARGS=--detach: in the background)
	@$(SETUP) run
	@exec $(BIN)/holdfast up --first-job examples/hello.yaml $(ARGS)

test: ## install, then run the tests (ARGS="tests/core -x": only some)
	@$(SETUP) dev
	@sh scripts/test-components.sh
	@exec sh scripts/test.sh $(ARGS)

test-all: ## run the slow tests that `make test` skips: crash tests, more random inputs, client test suites
	@$(SETUP) dev
	@sh scripts/test-components.sh
	@HOLDFAST_SCHEDULES=10000 HOLDFAST_LONGER=3 HOLDFAST_ROUNDS=20 HOLDFAST_TEST_REPORT=build/tests-all.xml \
		sh scripts/test.sh -m 'release or longer or hypothesis' $(ARGS)

check: ## check format, lint, types, imports, generated docs and translations, without tests
	@$(SETUP) dev
	@exec sh scripts/check.sh

install: ## create .venv with the dependencies of the server
	@$(SETUP) run

install-dev: ## create .venv with the dependencies for development
	@$(SETUP) dev

bench: ## measure speed and memory; prints a table, writes build/bench.json
	@$(SETUP) dev
	@mkdir -p build
	@exec $(BIN)/python -m bench $(ARGS)

format: ## format all Python files and fix lint errors
	@$(SETUP) dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: ## regenerate the reference pages
	@$(SETUP) dev
	@$(BIN)/python docs/generate.py

translations: ## update the translation files from the source
	@$(SETUP) dev
	@$(BIN)/python scripts/translations.py

clean: ## remove build/ and caches (.venv and your jobs stay)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
