"""Errors that more than one part of the grader raises or handles."""

__all__ = ["BusyError", "RefusedError"]


class BusyError(RuntimeError):
    """Another grader writes to the same folder."""


class RefusedError(RuntimeError):
    """Results cannot be written to the given place; the message gives the reason and the remedy in one line."""
