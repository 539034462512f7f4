#!/bin/sh
# Runs the tests on two processes for each core: many of them wait. Arguments go to pytest and replace the default of
# "everything". In the end it says where the time went.
set -eu

cd "$(dirname "$0")/.."
mkdir -p build
report=build/tests.xml
LAST_FAILED=.pytest_cache/v/cache/lastfailed
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

run() {
    .venv/bin/python -m pytest --durations 10 --durations-min 5 "$@"
}

# Which tests stay together on one process, and in which order they begin, is said in tests/scheduling.py.
whole=
[ "$#" -gt 0 ] && [ -z "${HOLDFAST_LONGER-}" ] || whole=yes
[ -z "$whole" ] || rm -f "$LAST_FAILED"
status=0
run -n "$workers" --dist loadfile --no-loadscope-reorder --junit-xml "$report" "$@" || status=$?
.venv/bin/python scripts/test_times.py "$report"
[ -n "$whole" ] && [ "$status" -eq 1 ] || exit "$status"

# With thousands of tests of real servers, browsers and processes on a busy machine, one that depends on how fast something
# goes shows up now and then. When everything was run and no more than three tests failed, those are run once more, alone:
# what fails again is broken, what does not is named at the end as unsteady, to be mended.
failed=$(.venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$LAST_FAILED")
[ "$(printf '%s\n' "$failed" | wc -l)" -le 3 ] || exit "$status"
echo "Once more, alone, what failed."
run --last-failed --last-failed-no-failures none "$@" || exit "$status"
printf '\nUNSTEADY: failed among all the others, passed alone. Find out why:\n%s\n' "$failed"
