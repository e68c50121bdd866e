"""The instructor's half: building the course, proving it, and grading answers that nobody can trust."""
