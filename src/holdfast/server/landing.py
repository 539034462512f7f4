"""The page at `/`, until there is a portal."""

from __future__ import annotations

from html import escape

from .docs_page import page


def render_landing(origin: str) -> bytes:
    """`origin` is the address that it was asked for at."""
    return page("Holdfast", _BODY.replace("ORIGIN", escape(origin)))


_BODY = """<h1>Holdfast</h1>
<p>Runs batch jobs on shared machines, and shows why they wait or fail.</p>
<h2>Begin</h2>
<p>On this machine the command line is logged in by itself; from another one, log in first:</p>
<pre>holdfast login ORIGIN
holdfast submit -- echo hello
holdfast ls</pre>
<p>The password of user <code>admin</code> was printed once, when the server first started. On the server's own machine
an admin sets a new one with <code>holdfast user passwd admin</code>.</p>
<h2>Coming from PrimeHub or OpenPAI</h2>
<p>Their clients work here with another address. PrimeHub's Python SDK and its command:</p>
<pre>primehub config generate-token ORIGIN</pre>
<p>or the endpoint <code>ORIGIN/api/graphql</code> with a token from <code>holdfast token create NAME</code>. OpenPAI's
clients: the cluster <code>ORIGIN</code>, its API at <code>ORIGIN/rest-server</code>.</p>
<h2>For programs</h2>
<p><a href="/api/docs">The REST API</a>, also as <a href="/api/v1/openapi.json">OpenAPI</a>. Every request carries
<code>Authorization: Bearer &lt;token&gt;</code>; <code>holdfast token create NAME</code> makes one.</p>"""
