"""The exercises of lesson 11, one a module."""
