"""Rehearsals: simulated participants who drive the real service, and the demonstration that they fill."""
