"""Learning: returns, distributional losses, replay, learner, trainer, checkpoints."""
