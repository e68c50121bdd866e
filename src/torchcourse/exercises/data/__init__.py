"""The exercises of lesson 04, one a module."""
