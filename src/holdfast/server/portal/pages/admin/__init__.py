"""Admin pages: users, quotas, and choices for jobs. Other users get a 404."""

from . import datasets, groups, image_aliases, images, instance_types, secrets, usage, user_import, user_tokens, users

routes = [
    *user_import.routes,
    *users.routes,
    *user_tokens.routes,
    *groups.routes,
    *instance_types.routes,
    *image_aliases.routes,
    *images.routes,
    *datasets.routes,
    *secrets.routes,
    *usage.routes,
]
