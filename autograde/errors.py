"""Errors that more than one part of the grader raises or handles."""

__all__ = ["BusyError", "ClassError", "CourseError", "RefusedError"]


class BusyError(RuntimeError):
    """Another grader writes to the same folder."""


class ClassError(RuntimeError):
    """A file of a class folder cannot be read; the message gives the place and the remedy in one line."""


class CourseError(RuntimeError):
    """A lesson cannot be used as its author left it; the message gives the place and the remedy in one line."""


class RefusedError(RuntimeError):
    """Results cannot be written to the given place; the message gives the reason and the remedy in one line."""
