"""What sets the project up: run from the repository's root, never shipped."""
