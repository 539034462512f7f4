#!/bin/sh
# Runs the tests on two processes. Arguments go to pytest and replace the default of "everything".
set -eu

cd "$(dirname "$0")/.."
mkdir -p build
# A file stays on one process: its fixtures (a server, a database) are made once. Files keep their order: sorted by their
# number of tests, the one long test that kills servers would come last, alone on one core.
exec .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 5 --durations-min 5 --junit-xml build/tests.xml "$@"
