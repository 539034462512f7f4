#!/bin/sh
# Runs the tests on two processes for each core: many of them wait. Arguments go to pytest and replace the default of
# "everything".
set -eu

cd "$(dirname "$0")/.."
mkdir -p build
workers=$(($(getconf _NPROCESSORS_ONLN) * 2))
# A file stays on one process: its fixtures (a server, a database) are made once. In the order of their names: by their
# number of tests, which is the default, those that take longest come last.
exec .venv/bin/python -m pytest -n "$workers" --dist loadfile --no-loadscope-reorder --durations 5 --durations-min 5 --junit-xml build/tests.xml "$@"
