"""Pages of a group for its members: overview, shared files, and settings for group admins."""

from . import file_removal, files, overview, settings

routes = [*overview.routes, *files.routes, *file_removal.routes, *settings.routes]
