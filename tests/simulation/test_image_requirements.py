"""What scripts need, as far as it can be told without running them; and nothing that cannot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.simulation.image_requirements import find_requirements
from holdfast.simulation.shell_parser import parse_script
from holdfast.simulation.unchecked_paths import iter_unchecked_paths
from tests.longer import examples

PROGRAMS = {
    "plain": ("foo --x 1", ["foo"]),
    "a list": ("a1; b1 && c1 | d1 & e1", ["a1", "b1", "c1", "d1", "e1"]),
    "assignments before": ("A=1 B='x y' foo", ["foo"]),
    "redirections": ("foo >out 2>&1 <in && &>all bar", ["foo", "bar"]),
    "wrappers": ("exec nohup foo; sudo bar", ["foo", "bar"]),
    "words in quotes": ("'foo' \"bar\"; echo 'a; b' \"c | d\"", ["foo", "echo"]),
    "comments": ("foo # bar; baz\n# qux\nquux", ["foo", "quux"]),
    "a line that goes on": ("foo \\\n  --x \\\n  y\nbar", ["foo", "bar"]),
    "here documents": ("foo <<A <<-'B'\nx; y\nA\n\tz\n\tB\nbar", ["foo", "bar"]),
    "loops": ("for i in a b; do foo; done; while bar; do baz; done", ["foo", "baz"]),
    "subshells": ("(foo; bar) | { baz; }", ["foo", "bar", "baz"]),
    "substitutions": ("foo $(bar; baz) `qux` <(quux) ${x:-y;z}", ["foo"]),
    "conditions": ("if foo; then bar; else baz; fi; qux", ["qux"]),
    "cases": ("case $x in a|b) foo ;; *) bar ;; esac; baz", ["baz"]),
    "functions": ("f() { foo; }; function g { bar; }; f; g", ["foo", "bar"]),
    "alternatives": ("foo || bar; baz", ["baz"]),
    "tests": ("[ -f x ] && foo; [[ -n $x || $y ]] && bar; baz", ["[", "baz"]),
    "asked for before": ("command -v foo; foo; which bar; bar", ["command", "which"]),
    "after an installation": ("apt-get install -y foo; foo", ["apt-get"]),
    "after a new path": ("export PATH=/x:$PATH; foo", ["export"]),
    "what cannot be told": ("$program x; foo", []),
}

FILES = {
    "a script": ("python3 -u train.py --x", ["train.py"]),
    "a path": ("./run.sh; /opt/x/y", ["./run.sh"]),
    "in a folder": ("cd src; bash run.sh", ["src/run.sh"]),
    "a module, or text": ("python -m x; python -c 'y'", []),
    "made before": ("echo 1 >a.py; python a.py", []),
    "fetched before": ("git clone x; python x/a.py", []),
    "asked for before": ("[ -f a.py ]; python a.py", []),
    "a name that is filled in": ("python $SCRIPT; python ~/a.py; python *.py", []),
}


# The stand-ins are /datasets, datasets, /phfs and /datasets/known; /datasets/here is really there.
UNTRIED = {
    "words": ("cat /datasets/a/x 'datasets/b' /datasets/a/x", ["/datasets/a/x", "datasets/b"]),
    "options": ("train --data=/datasets/a --from /phfs/b", ["/datasets/a", "/phfs/b"]),
    "input": ("wc </phfs/in", ["/phfs/in"]),
    "in a program": ("python -c \"open('/phfs/x.csv')\"", ["/phfs/x.csv"]),
    "names that are filled in": ('cat "/datasets/$NAME/x"', ["/datasets/$NAME/x"]),
    "the folders themselves": ("ls /datasets /datasets/known /phfs/", []),
    "what is here": ("cat /datasets/here/x /datasets-too/x /usr/datasets/x s3://datasets/x", []),
    "written": ("mkdir /phfs/a; cat /phfs/a/x; echo >/phfs/b; cp x /phfs/c; train --output-dir /phfs/d -o /phfs/e", []),
    "asked for": ("[ -f /phfs/x ] && cat /phfs/x", []),
}


@pytest.mark.parametrize("name", UNTRIED)
def test_paths_that_cannot_be_tried(name: str) -> None:
    text, wanted = UNTRIED[name]
    stand_ins = ("/datasets", "datasets", "/phfs", "/datasets/known")
    assert [path for path, _ in iter_unchecked_paths(text, stand_ins, ("/datasets/here",))] == wanted


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    text, wanted = PROGRAMS[name]
    assert list(find_requirements(text).programs) == wanted


@pytest.mark.parametrize("name", FILES)
def test_files(name: str) -> None:
    text, wanted = FILES[name]
    assert list(find_requirements(text).files) == wanted


@given(st.text(alphabet="ab =$'\"`\\\n;&|(){}<>[]#!-/\t", max_size=60) | st.text(max_size=40))
@settings(max_examples=examples(300), deadline=None)
def test_no_text_upsets_it(text: str) -> None:
    script = parse_script(text)
    assert sum(len(command.words) for command in script.commands) <= len(text)
    find_requirements(text)
    list(iter_unchecked_paths(text, ("/a", "b")))
