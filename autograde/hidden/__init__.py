"""Hidden cases and known mistakes, a module a lesson. Keep this folder, with `solutions/`, away from learners."""
