"""What several private halves of lesson 01 share."""

from __future__ import annotations

HANDED = (
    "The number of {what} is {got}: what is worked out one by one in Python, or in NumPy, pays for each row what one "
    "torch call for all rows pays once."
)
SAYS_LITTLE = (
    "In the case \"{case}\" what came was {refused}: the message should say which argument it is, what it got and what "
    "it wants."
)  # fmt: skip
