"""A group's own pages, for its members: what it has, its shared files, and settings for those who look after it."""

from . import deleting, files, overview, settings

routes = [*overview.routes, *files.routes, *deleting.routes, *settings.routes]
