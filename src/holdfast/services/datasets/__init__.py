"""Datasets, the git checkouts behind some of them, and how jobs mount them."""
