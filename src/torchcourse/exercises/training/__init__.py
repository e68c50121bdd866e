"""The exercises of lesson 05, one a module."""
