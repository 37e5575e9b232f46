"""Many splits of one dataset, so that a verdict does not hang on a single stretch of time."""

from itertools import pairwise

from foxhunt.config import SplitConfig, require


def walk_forward(
    folds: int, *, train: float = 0.4, validate: float = 0.1, expanding: bool = False, embargo: str = "0s"
) -> list[SplitConfig]:
    """Splits whose test ranges follow each other without gap to the end of the data, each after its own training.

    Args:
        folds: number of splits.
        train: share of the data that the first split trains on; later ones train on as much just before validation.
        validate: share that chooses the checkpoint, between training and test.
        expanding: train on everything from the start instead.
        embargo: time left out at the start of validate and test; longer than the features look back, rows on the
            two sides of an edge share no data.

    Labels need no purging: an account ends with its range, so no reward or forecast target looks past it.
    Raises `ConfigError` when nothing is left to test on.
    """
    require(folds >= 1, "folds must be at least 1")
    require(train > 0 and validate > 0, "train and validate must be positive shares")
    require(train + validate < 1, f"train {train:g} and validate {validate:g} leave nothing to test on")
    step = (1 - train - validate) / folds
    splits = []
    for fold in range(folds):
        start = fold * step
        edges = [0.0 if expanding else start, start + train, start + train + validate, start + train + validate + step]
        marks = [f"{min(edge, 1.0) * 100:.6f}%" for edge in edges]
        learn, choose, judge = (f"{first}/{stop}" for first, stop in pairwise(marks))
        splits.append(SplitConfig(learn, choose, judge, embargo))
    return splits
