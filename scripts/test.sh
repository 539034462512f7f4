#!/bin/sh
# Runs the tests on two processes for each core: many of them wait. Arguments go to pytest and replace the default of
# "everything". In the end it says where the time went.
set -eu

cd "$(dirname "$0")/.."
mkdir -p build
report=build/tests.xml
workers=$(($(getconf _NPROCESSORS_ONLN) * 2))
NEEDED=4194304 # KiB of memory that tests may fill with their folders

# Each process reads every test first: that takes three times as long when nothing compiled may be kept.
unset PYTHONDONTWRITEBYTECODE

# Databases are written safely, which a disk takes its time for and memory does not. Root has a folder in memory that only
# these tests see and that is gone with them; nothing below /dev/shm will do, for tasks have a /dev of their own.
memory() {
    awk '/^MemAvailable/ { print $2 }' /proc/meminfo
}
if [ -z "${TESTS_IN_MEMORY-}" ] && [ "$(memory)" -gt "$NEEDED" ] && unshare --mount true 2>/dev/null; then
    folder=$(mktemp -d /tmp/holdfast-tests-XXXXXX)
    trap 'rmdir "$folder"' EXIT
    trap 'exit 130' INT TERM
    TESTS_IN_MEMORY=$folder unshare --mount sh -c \
        'mount -t tmpfs -o mode=0755 holdfast-tests "$TESTS_IN_MEMORY" && exec sh scripts/test.sh "$@"' sh "$@"
    exit
fi

# In a fresh clone each process would compile all tests, at the same time as the others do.
compile_tests() {
    .venv/bin/python -m pytest --collect-only -q tests/[a-r]*/ >/dev/null 2>&1 &
    .venv/bin/python -m pytest --collect-only -q tests/[s-z]*/ >/dev/null 2>&1 || true
    wait
}
[ "$#" -gt 0 ] || [ -d tests/__pycache__ ] || compile_tests

# Which tests stay together on one process, and in which order they begin, is said in tests/scheduling.py.
status=0
.venv/bin/python -m pytest -n "$workers" --dist loadfile --no-loadscope-reorder --junit-xml "$report" \
    --durations 10 --durations-min 5 ${TESTS_IN_MEMORY:+"--basetemp=$TESTS_IN_MEMORY/t"} "$@" || status=$?
.venv/bin/python scripts/test_times.py "$report"
exit "$status"
