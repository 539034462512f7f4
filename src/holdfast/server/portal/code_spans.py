"""Code spans in sentences: text between backticks is shown as code."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_CODE_SPAN_PATTERN = re.compile(r"`([^`\n]+)`")


def render_code_spans(text: str) -> Markup:
    """Render code spans of untrusted text: it is escaped first, so that it cannot contain tags."""
    return Markup(_CODE_SPAN_PATTERN.sub(r'<code translate="no">\1</code>', str(escape(text))))
