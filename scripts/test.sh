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

# Databases are written safely, which a disk takes its time for; memory does not.
room() {
    df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }'
}
folder=
if [ -w /dev/shm ] && [ "$(room)" -gt "$NEEDED" ]; then
    folder=$(mktemp -d /dev/shm/holdfast-tests-XXXXXX)
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' INT TERM
fi

# Which tests stay together on one process, and in which order they begin, is said in tests/scheduling.py.
status=0
.venv/bin/python -m pytest -n "$workers" --dist loadfile --no-loadscope-reorder --junit-xml "$report" \
    --durations 10 --durations-min 5 ${folder:+"--basetemp=$folder/t"} "$@" || status=$?
.venv/bin/python scripts/test_times.py "$report"
exit "$status"
