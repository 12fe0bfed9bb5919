"""The study file: a study in words, for simulation and for life."""
