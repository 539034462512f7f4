"""What is remembered: tables, queries per noun, migrations. Rows never leave this folder."""
