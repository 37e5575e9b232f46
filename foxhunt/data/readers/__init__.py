"""One reader a format; each yields canonical frames and quarantined rows."""
