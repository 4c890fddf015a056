"""A model behind an OpenAI-compatible chat endpoint: it is asked over the network, and words are all it gives."""
