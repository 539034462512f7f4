"""The tests that OpenPAI's JavaScript SDK ships for a live cluster, run against a real server of ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from .node import PACKAGE, run_node, sdk_folder
from .place import PASSWORD, Pai, place

pytestmark = pytest.mark.release

# They make a user whose password is its name, which we refuse. What a non-admin is told, test_js_sdk.py asks.
NOT_HERE = "by non-admin user token"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    modules = sdk_folder()
    folder = tmp_path_factory.mktemp("suite")
    library = folder / "lib"
    shutil.copytree(modules / PACKAGE / "lib", library)
    with place(folder / "home") as server:
        cluster = {"rest_server_uri": f"{server.url}/rest-server", "username": "boss", "password": PASSWORD}
        cluster["token"] = Pai(server, "boss").http.headers["Authorization"].removeprefix("Bearer ")
        (library / ".tests" / "clusters.json").write_text(json.dumps([cluster]))
        _write_cases(library, folder / "swagger.yaml")
        suite = library / "tests" / "api_tests" / "v2" / "api.v2.spec.js"
        mocha = ("--timeout", "60000", "--reporter", "json", "--grep", NOT_HERE, "--invert")
        done = run_node(str(modules / "mocha" / "bin" / "mocha"), *mocha, str(suite), env={})
    return dict(json.loads(done.stdout[done.stdout.index('{\n  "stats"') :]))


def _write_cases(library: Path, description: Path) -> None:
    """Its generator makes the cases from its description, of which one part lies on the web and one is a slip."""
    lines = (library / "src" / "api" / "v2" / "swagger.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        if "$ref" in line and "https://" in line:
            lines[number] = line[: line.index("$ref")] + "type: object"
        if line.strip() == "taskUid:":
            lines[number + 1] = line.replace("taskUid:", "  type: string")
    description.write_text("\n".join(lines))
    generator = library / "tests" / "common" / "apiTestCaseGenerator.js"
    done = run_node(str(generator), "--", str(description), str(library / ".tests" / "apiTestCase.json"), env={})
    assert "Success" in done.stdout, done.stdout + done.stderr


def test_nothing_of_it_fails(report: dict[str, Any]) -> None:
    assert [(each["fullTitle"], each["err"].get("message")) for each in report["failures"]] == []


def test_it_was_run_in_full(report: dict[str, Any]) -> None:
    assert report["stats"]["passes"] >= 60
