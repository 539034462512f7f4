"""Addresses that people kept from OpenPAI's and PrimeHub's portals, in bookmarks and chats. Each leads to ours."""

from . import openpai, primehub

routes = [*openpai.routes, *primehub.routes]
