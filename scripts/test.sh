#!/bin/sh
# Runs the tests on two processes for each core: many of them wait. Arguments go to pytest and replace the default of
# "everything".
#
# With thousands of tests of real servers, browsers and processes on a busy machine, one that depends on how fast
# something goes shows up now and then. When everything was run and no more than three tests failed, those are run once
# more, alone: what fails again is broken, what does not is named at the end as unsteady, to be mended.
set -eu

cd "$(dirname "$0")/.."
mkdir -p build
LAST_FAILED=.pytest_cache/v/cache/lastfailed
workers=$(($(getconf _NPROCESSORS_ONLN) * 2))

run() {
    .venv/bin/python -m pytest --durations 5 --durations-min 5 "$@"
}

# A file stays on one process: its fixtures (a server, a database) are made once. In the order of their names: by their
# number of tests, which is the default, those that take longest come last.
status=0
[ "$#" -gt 0 ] || rm -f "$LAST_FAILED"
run -n "$workers" --dist loadfile --no-loadscope-reorder --junit-xml build/tests.xml "$@" || status=$?
[ "$#" -eq 0 ] && [ "$status" -eq 1 ] || exit "$status"

failed=$(.venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$LAST_FAILED")
[ "$(printf '%s\n' "$failed" | wc -l)" -le 3 ] || exit "$status"
echo "Once more, alone, what failed."
run --last-failed --last-failed-no-failures none || exit "$status"
printf '\nUNSTEADY: failed among all the others, passed alone. Find out why:\n%s\n' "$failed"
