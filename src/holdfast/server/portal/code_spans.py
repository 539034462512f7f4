"""Commands in sentences: what stands between backticks is shown as code."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_SPAN = re.compile(r"`([^`\n]+)`")


def coded(text: str) -> Markup:
    """Anybody's text: escaped before anything is marked in it, so that nothing in it is a tag but ours."""
    return Markup(_SPAN.sub(r'<code translate="no">\1</code>', str(escape(text))))
