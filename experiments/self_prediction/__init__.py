"""Can self-prediction be taught: heads and words, on the same labels."""
