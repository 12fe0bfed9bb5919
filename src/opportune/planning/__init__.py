"""Planning a study before it starts: how many nudges, how much work, who gets them, how sure, and with what power."""

from opportune.planning.run import Plan, plan
from opportune.planning.settings import Settings, settings_of

__all__ = ["Plan", "Settings", "plan", "settings_of"]
