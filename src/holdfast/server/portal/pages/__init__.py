"""One module per place in the portal: its pages' data, what fills them, and its `routes`."""

from . import home, login

PAGES = (home, login)
