"""Monitoring: alerts and their checks, forecasts, logs, and messages to the outside."""
