"""Recommenders: what to recommend. One file each: settings, equations and the compiled rule."""

from opportune.engine.hooks import RECOMMENDERS
from opportune.recommenders.base import Recommender
from opportune.recommenders.fixed import FixedAction
from opportune.recommenders.linucb import LinUCB
from opportune.recommenders.random import RandomAction
from opportune.recommenders.thompson import Thompson

__all__ = ["RECOMMENDERS", "FixedAction", "LinUCB", "RandomAction", "Recommender", "Thompson"]

for _recommender in (LinUCB, Thompson, FixedAction, RandomAction):
    RECOMMENDERS.add(_recommender)
