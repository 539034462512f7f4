#!/bin/sh
# Runs the tests in two processes per core, because many tests wait. Arguments are passed to pytest and replace the
# default of all tests. Prints the duration of folders and files at the end.
set -eu

cd "$(dirname "$0")/.."
mkdir -p build
report=${HOLDFAST_TEST_REPORT:-build/tests.xml}
workers=$(($(getconf _NPROCESSORS_ONLN) * 2))

# Each process imports all tests first: without compiled files that takes three times as long.
unset PYTHONDONTWRITEBYTECODE

# In a new clone, each process would compile all tests at the same time.
compile_tests() {
    .venv/bin/python -m pytest --collect-only -q tests/[a-r]*/ >/dev/null 2>&1 &
    .venv/bin/python -m pytest --collect-only -q tests/[s-z]*/ >/dev/null 2>&1 || true
    wait
}
[ "$#" -gt 0 ] || [ -d tests/__pycache__ ] || compile_tests

# tests/scheduling.py decides which tests share a process, and in which order they start.
status=0
.venv/bin/python -m pytest --durations 10 --durations-min 5 -n "$workers" --dist loadfile --no-loadscope-reorder \
    --junit-xml "$report" "$@" || status=$?
.venv/bin/python scripts/test_times.py "$report"
exit "$status"
