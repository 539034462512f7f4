"""`{path:any}` in an address: the rest of it, whatever it holds. The framework's own `path` stops at line breaks, and
file names may have them."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor


class AnyPath(PathConvertor):
    regex = r"[\s\S]*"


register_url_convertor("any", AnyPath())
