"""The version of the algorithm: a number that changes whenever decisions would.

Every event of a record names it. A study stays on the version that it was launched with, to the end: a release with
another number refuses the record, so nothing old need be kept in the code. Tests pin the decisions of a long record to
this number; whoever changes a decision gives it the next one.
"""

ALGORITHM = 1
