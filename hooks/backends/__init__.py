"""Ways to run a model and read its states, behind one protocol."""
