"""What is watched: alerts, checks, forecasts, logs."""
