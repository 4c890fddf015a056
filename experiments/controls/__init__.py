"""What a probe's score must be held against: captures of their own, and a row for each."""

from experiments.controls.peer import Peer, collect_peer, load_peer
from experiments.controls.random_weights import capture_random_weights

__all__ = ["Peer", "capture_random_weights", "collect_peer", "load_peer"]
