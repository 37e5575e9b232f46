"""Judging an agent: splits, baselines, back-tests, metrics, reports."""
