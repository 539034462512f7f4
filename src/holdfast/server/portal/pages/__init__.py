"""One module per place in the portal: its pages' data, what fills them, and its `routes`."""

from . import home, live, log, log_live, login

PAGES = (home, live, log, log_live, login)
