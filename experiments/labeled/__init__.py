"""Probes of a user's own labels: read (`labels`), measured a module a kind (`binary`, `rate`, `classes`), put together
(`probe`), drawn (`figures`) and kept (`folder`)."""
