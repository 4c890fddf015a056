"""What a probe's score must be held against: captures of their own, and a row for each."""

from experiments.controls.peer import Peer, collect_peer, load_peer
from experiments.controls.peer_words import ask_peer
from experiments.controls.random_weights import capture_random_weights
from experiments.controls.records import ControlRecords, open_controls
from experiments.controls.result import N_STEPS, Controls, control_results

__all__ = [
    "N_STEPS",
    "ControlRecords",
    "Controls",
    "Peer",
    "ask_peer",
    "capture_random_weights",
    "collect_peer",
    "control_results",
    "load_peer",
    "open_controls",
]
