"""The exercises of lesson 10, one a module."""
