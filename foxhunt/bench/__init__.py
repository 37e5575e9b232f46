"""Benchmarks: one entry a claim; each writes a CSV of medians and spreads."""
