"""Recommenders: what to recommend. Each file has settings, equations and the compiled rule, and one line here."""

from opportune.engine.hooks import RECOMMENDERS as RECOMMENDERS
from opportune.recommenders.base import Recommender as Recommender

# ruff: isort: off
# Each import registers a recommender; messages and documentation list them in this order.
from opportune.recommenders.linucb import LinUCB as LinUCB
from opportune.recommenders.thompson import Thompson as Thompson
from opportune.recommenders.fixed import FixedAction as FixedAction
from opportune.recommenders.random import EqualCoins as EqualCoins
