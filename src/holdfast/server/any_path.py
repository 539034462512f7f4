"""`{path:any}` in a URL: the rest of the path with any characters. Starlette's own `path` stops at line breaks, and
file names can contain them."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor


class AnyPathConvertor(PathConvertor):
    regex = r"[\s\S]*"


register_url_convertor("any", AnyPathConvertor())
