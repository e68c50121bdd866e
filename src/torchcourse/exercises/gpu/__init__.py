"""The exercises of lesson 06, one a module."""
