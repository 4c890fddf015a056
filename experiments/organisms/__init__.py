"""Models and simulators with a planted, known breakdown: the instrument's own test."""
