"""The version of the algorithm: a number that changes whenever decisions change.

Every event of a record contains it. A study keeps the version that it was launched with: a release with another
number rejects the record, so the code need not support old versions. Tests pin the decisions of a long record to this
number; a change of any decision requires the next number.
"""

ALGORITHM = 1
