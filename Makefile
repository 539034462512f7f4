# Every chore of this repository. `make help` lists them; the work itself is in scripts/.
# POSIX make and sh. Nothing here needs root, Docker, Node or a database.

ARGS =
BIN = .venv/bin
SETUP = sh scripts/install.sh

.PHONY: help up test test-all check install install-dev bench format docs words clean

help: ## list the chores
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

up: ## set up, start the server, run a first job (ARGS=--detach returns after it)
	@$(SETUP) run
	@exec $(BIN)/holdfast up --first-job examples/hello.yaml $(ARGS)

test: ## set up, then run the tests (ARGS="tests/core -x" for some of them)
	@$(SETUP) dev
	@sh scripts/test-components.sh
	@exec sh scripts/test.sh $(ARGS)

test-all: ## what `make test` leaves out: long crash runs, more random tries, whole client suites
	@$(SETUP) dev
	@sh scripts/test-components.sh
	@HOLDFAST_SCHEDULES=10000 HOLDFAST_LONGER=3 HOLDFAST_ROUNDS=20 sh scripts/test.sh -m 'release or longer or hypothesis' $(ARGS)

check: ## format, lint, types, imports, generated docs, translations: what needs no test run
	@$(SETUP) dev
	@exec sh scripts/check.sh

install: ## make .venv with all that is needed to run
	@$(SETUP) run

install-dev: ## the same, and the tools to work on Holdfast
	@$(SETUP) dev

bench: ## measure speed and footprint; table on screen, build/bench.json
	@$(SETUP) dev
	@mkdir -p build
	@exec $(BIN)/python -m bench $(ARGS)

format: ## write all Python the way `make check` wants it
	@$(SETUP) dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: ## write the generated reference pages anew
	@$(SETUP) dev
	@$(BIN)/python docs/generate.py

words: ## bring the portal's catalogues of translations up to date with the source
	@$(SETUP) dev
	@$(BIN)/python scripts/translations.py

clean: ## remove build/ and caches (.venv and your jobs stay)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
