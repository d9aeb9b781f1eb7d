"""Event-driven simulator and its reports."""
