"""Database tables, queries and migrations. Rows never leave this package."""
