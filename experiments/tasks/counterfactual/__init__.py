"""How a change of the prompt would change the model's own answer, and what it knows of its own answers.

Follows the counterfactual self-modeling of arXiv 2608.30980, on questions and perturbations of our own.
"""
