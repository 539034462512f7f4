#!/bin/sh
# Runs the tests on two processes for each core: many of them wait. Arguments go to pytest and replace the default of
# "everything". In the end it says where the time went.
set -eu

cd "$(dirname "$0")/.."
mkdir -p build
report=build/tests.xml
workers=$(($(getconf _NPROCESSORS_ONLN) * 2))

# Each process reads every test first: that takes three times as long when nothing compiled may be kept.
unset PYTHONDONTWRITEBYTECODE

# In a fresh clone each process would compile all tests, at the same time as the others do.
compile_tests() {
    .venv/bin/python -m pytest --collect-only -q tests/[a-r]*/ >/dev/null 2>&1 &
    .venv/bin/python -m pytest --collect-only -q tests/[s-z]*/ >/dev/null 2>&1 || true
    wait
}
[ "$#" -gt 0 ] || [ -d tests/__pycache__ ] || compile_tests

# Which tests stay together on one process, and in which order they begin, is said in tests/scheduling.py.
status=0
.venv/bin/python -m pytest --durations 10 --durations-min 5 -n "$workers" --dist loadfile --no-loadscope-reorder \
    --junit-xml "$report" "$@" || status=$?
.venv/bin/python scripts/test_times.py "$report"
exit "$status"
