"""Network blocks: trunk, branches, heads."""
