"""Run a function in several processes that form a process group, from any process."""
