"""Tools of the project, run from the repository's root and never shipped."""
