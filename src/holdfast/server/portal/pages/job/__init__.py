"""The job list, and the page of a job with its sections."""

from . import actions, holds, listing, page

routes = [*actions.routes, *holds.routes, *listing.routes, *page.routes]
