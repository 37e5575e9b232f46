"""One CUDA graph over the whole update: forward, loss, backward, clip, optimizer and target sync."""

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from foxhunt.rl.learner import Learner
from foxhunt.rl.replay import Batch

WARMUP_UPDATES = 3
"""Updates before the capture, so that lazy initialisation and compilation lie outside the graph."""


class CapturedUpdate:
    """Replays a learner's update from one CUDA graph; a drop-in for `Learner.update` with batches of one shape.

    The learner is left exactly as it was found: what the warm-up and the capture did to it is undone.
    """

    def __init__(self, learner: Learner, example: Batch) -> None:
        """Capture on the example's device, which must be CUDA; `example` gives the shapes, not the values."""
        before = tree_map(_copy, learner.state_dict())
        self.batch: Batch = tree_map(_copy, example)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARMUP_UPDATES):
                learner.update(self.batch)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.metrics = learner.update(self.batch)
        learner.load_state_dict(before)

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Learn from `batch`. The tensors returned are overwritten by the next call."""
        for static, fresh in zip(tree_leaves(self.batch), tree_leaves(batch), strict=True):
            if static is not None:
                static.copy_(fresh)
        self.graph.replay()
        return self.metrics


def _copy(leaf: object) -> object:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf
