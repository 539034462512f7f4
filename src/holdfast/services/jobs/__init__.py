"""Jobs: submission, lookup, detail, holds and change notifications."""
