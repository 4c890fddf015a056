"""Scripted sweeps: many models x tasks x contexts x probes x seeds, in one folder that a kill cannot harm."""
