"""The web portal, rendered on the server. Scripts update pages live; pages are readable without them."""
