"""The page at `/`, until there is a portal."""

from __future__ import annotations

from .docs_page import page

LANDING = page(
    "Holdfast",
    """<h1>Holdfast</h1>
<p>Runs batch jobs on shared machines, shows why they wait or fail, and lets people get inside when they break.</p>
<h2>Begin</h2>
<p>On this machine the command line is logged in by itself; from another one, log in first:</p>
<pre>holdfast login http://this-host:8080
holdfast submit -- echo hello
holdfast ls</pre>
<p>The password of user <code>admin</code> was printed once, when the server first started. On the server's own machine
an admin sets a new one with <code>holdfast user passwd admin</code>.</p>
<h2>For programs</h2>
<p><a href="/api/docs">The REST API</a>, also as <a href="/api/v1/openapi.json">OpenAPI</a>. Every request carries
<code>Authorization: Bearer &lt;token&gt;</code>; <code>holdfast token create NAME</code> makes one.</p>""",
)
