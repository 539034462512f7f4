#!/bin/sh
# Runs all static checks. Continues after a failure, and lists the failed checks at the end.
set -u

cd "$(dirname "$0")/.."
bin=.venv/bin
mkdir -p build
log=build/check.log
failed=

run_check() {
    name=$1
    shift
    if "$@" >"$log" 2>&1; then
        printf 'ok      %s\n' "$name"
    else
        printf 'FAILED  %s\n' "$name"
        sed 's/^/        /' "$log"
        failed="$failed
  $name"
    fi
}

list_tracked_files() {
    git ls-files -z -- "$@"
}

check_file_sizes() {
    found=$(list_tracked_files | xargs -0 -I '{}' find '{}' -prune -type f -size +1024k 2>/dev/null)
    [ -z "$found" ] || { printf 'over 1 MB: %s\n' "$found"; return 1; }
}

# The machine's configuration decides where packages come from; the source must not name a registry.
check_registry_names() {
    hosts='pypi[.]org|pythonhosted[.]org|npmjs[.](org|com)|yarnpkg[.]com|anaconda[.]org|npmmirror[.]com'
    if list_tracked_files | xargs -0 grep -InE "$hosts"; then
        return 1
    fi
}

check_shell_syntax() {
    for script in scripts/*.sh src/holdfast/runtime/*.sh; do
        sh -n "$script" || return 1
    done
    for script in $(git ls-files 'src/holdfast/**/scripts/*.sh'); do  # with placeholders
        sed 's/@[a-z_]*@/:/g' "$script" | sh -n || { echo "$script"; return 1; }
    done
    bash -n .ci/run || return 1
    ! command -v shellcheck >/dev/null 2>&1 || shellcheck scripts/*.sh src/holdfast/runtime/*.sh .ci/run
}

run_check "format (fix: make format)" "$bin/ruff" format --check .
run_check "lint" "$bin/ruff" check --output-format concise .
run_check "types" "$bin/mypy"
run_check "imports point one way" "$bin/lint-imports"
run_check "generated docs (fix: make docs)" "$bin/python" docs/generate.py --check
run_check "translations (fix: make translations)" "$bin/python" scripts/translations.py --check
run_check "plain words" "$bin/python" scripts/banned_words.py
run_check "shell scripts" check_shell_syntax
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    run_check "no file over 1 MB" check_file_sizes
    run_check "no package registry named" check_registry_names
else
    echo "skipped file sizes and registry names: this is not a git checkout"
fi

if [ -n "$failed" ]; then
    printf '\nFailed:%s\n' "$failed"
    exit 1
fi
