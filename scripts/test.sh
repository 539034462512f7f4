#!/bin/sh
# Runs the tests on two processes. Arguments go to pytest and replace the default of "everything".
set -eu

cd "$(dirname "$0")/.."
mkdir -p build
# A file stays on one process: its fixtures (a server, a database) are made once.
exec .venv/bin/python -m pytest -n 2 --dist loadfile --durations 5 --durations-min 5 --junit-xml build/tests.xml "$@"
