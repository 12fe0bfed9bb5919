"""The tooth-brushing world (Oralytics)."""
