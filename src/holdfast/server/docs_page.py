"""The API's documentation page: OpenAPI as plain HTML. It loads no other files."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; }
:root { --text: #222; --quiet: #666; --line: #ddd; --code: #f4f4f2; --link: #0b5c94; --method: #17663a; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6ebf0; --quiet: #a9b4bf; --line: #36424d; --code: #232c35; --link: #7cc0f0; --method: #7fd6a0; }
  body { background: #12171c; }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: var(--text); }
a { color: var(--link); }
code, pre { font: 14px/1.45 ui-monospace, monospace; background: var(--code); border-radius: 3px; padding: .1em .3em; }
pre { padding: .7em 1em; overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; }
td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
section { border-top: 1px solid var(--line); padding: .6rem 0; }
h3 { margin: .2rem 0; font-weight: 600; }
.method { display: inline-block; min-width: 4.5em; color: var(--method); }
small { color: var(--quiet); }
"""


def render_page(title: str, body: str) -> bytes:
    """`body` is HTML."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>{body}</body></html>'
    ).encode()


def render_docs(schema: dict[str, Any]) -> bytes:
    by_tag: dict[str, list[str]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append(_render_operation(path, method, operation))
    parts = [_render_intro(schema)]
    for tag, sections in by_tag.items():
        parts.append(f'<h2 id="{escape(tag)}">{escape(tag.capitalize())}</h2>{"".join(sections)}')
    parts.append("<h2>Shapes</h2>")
    parts += [_render_model(name, shape) for name, shape in sorted(schema["components"]["schemas"].items())]
    return render_page(f"{schema['info']['title']} API", "".join(parts))


def _render_intro(schema: dict[str, Any]) -> str:
    info = schema["info"]
    return (
        "<p><a href='/'>Back to the portal</a></p>"
        f"<h1>{escape(info['title'])} API <small>{escape(info['version'])}</small></h1>"
        f"<p>{escape(info.get('description', ''))}</p>"
        "<p>Send <code>Authorization: Bearer &lt;token&gt;</code> with every request; <code>POST /api/v1/login</code> "
        "returns a token for a user and password. Errors have one shape (<a href='#Error'>Error</a>). Times are UTC, "
        "durations seconds. The same as <a href='/api/v1/openapi.json'>OpenAPI</a>.</p>"
    )


def _render_operation(path: str, method: str, operation: dict[str, Any]) -> str:
    parts = [
        f'<section><h3><span class="method">{method.upper()}</span> <code>{escape(path)}</code></h3>',
        f"<p>{escape(operation.get('description') or operation.get('summary') or '')}</p>",
    ]
    if operation.get("parameters"):
        parts.append(f"<table>{''.join(map(_render_parameter, operation['parameters']))}</table>")
    body = operation.get("requestBody")
    if body:
        parts.append(f"<p>Body: {escape(body.get('description', ''))} {_render_contents(body['content'])}</p>")
    for status, response in operation["responses"].items():
        if status != "default" and response.get("content"):
            parts.append(f"<p>{escape(status)}: {_render_contents(response['content'])}</p>")
    return "".join([*parts, "</section>"])


def _render_parameter(parameter: dict[str, Any]) -> str:
    where = parameter["in"] + (", required" if parameter.get("required") else "")
    return (
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td><small>{escape(where)}</small></td>"
        f"<td>{_render_type(parameter.get('schema', {}))}</td><td>{escape(parameter.get('description', ''))}</td></tr>"
    )


def _render_contents(content: dict[str, Any]) -> str:
    return ", ".join(
        f"<code>{escape(kind)}</code> {_render_type(media.get('schema', {}))}" for kind, media in content.items()
    )


def _render_model(name: str, shape: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(field)}</code></td><td>{_render_type(value)}</td>"
        f"<td>{escape(value.get('description', ''))}</td></tr>"
        for field, value in shape.get("properties", {}).items()
    ]
    body = f"<table>{''.join(rows)}</table>" if rows else f"<p>{_render_type(shape)}</p>"
    about = f"<p>{escape(shape['description'])}</p>" if "description" in shape else ""
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{about}{body}</section>'


def _render_type(schema: dict[str, Any]) -> str:
    """Return a schema as short HTML text, with links to models."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_render_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_render_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"name → {_render_type(schema['additionalProperties'])}"
    return "time" if schema.get("format") == "date-time" else escape(str(schema.get("type", "")))
