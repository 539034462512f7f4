"""The installation itself: status, settings in force, audit, disk usage."""
