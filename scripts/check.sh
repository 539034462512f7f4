#!/bin/sh
# All that can be said about the source without running it. Goes on after a failure and names every one at the end.
set -u

cd "$(dirname "$0")/.."
bin=.venv/bin
mkdir -p build
log=build/check.log
failed=

check() {
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

tracked() {
    git ls-files -z -- "$@"
}

no_large_files() {
    found=$(tracked | xargs -0 -I '{}' find '{}' -prune -type f -size +1024k 2>/dev/null)
    [ -z "$found" ] || { printf 'over 1 MB: %s\n' "$found"; return 1; }
}

# Installs take packages from wherever the machine is set up to; the source must not say where that is.
no_registry_names() {
    hosts='pypi[.]org|pythonhosted[.]org|npmjs[.](org|com)|yarnpkg[.]com|anaconda[.]org|npmmirror[.]com'
    if tracked | xargs -0 grep -InE "$hosts"; then
        return 1
    fi
}

shell_syntax() {
    for script in scripts/*.sh src/holdfast/runtime/*.sh; do
        sh -n "$script" || return 1
    done
    bash -n .ci/run || return 1
    ! command -v shellcheck >/dev/null 2>&1 || shellcheck scripts/*.sh src/holdfast/runtime/*.sh .ci/run
}

check "format (make format mends it)" "$bin/ruff" format --check .
check "lint" "$bin/ruff" check --output-format concise .
check "types" "$bin/mypy"
check "imports point one way" "$bin/lint-imports"
check "generated docs (make docs mends them)" "$bin/python" docs/generate.py --check
check "translations (make words brings them up to date)" "$bin/python" scripts/words.py --check
check "plain words" "$bin/python" scripts/plain_words.py
check "shell scripts" shell_syntax
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    check "no file over 1 MB" no_large_files
    check "no package registry named" no_registry_names
else
    echo "skipped file sizes and registry names: this is not a git checkout"
fi

if [ -n "$failed" ]; then
    printf '\nFailed:%s\n' "$failed"
    exit 1
fi
