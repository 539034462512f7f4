"""Redirects for links to OpenPAI's and PrimeHub's portals."""

from . import openpai, primehub

routes = [*openpai.routes, *primehub.routes]
