"""The exercises of lesson 09, one a module."""
