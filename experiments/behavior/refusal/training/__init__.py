"""Training of the shipped refusal classifier, from texts that were written for it."""
