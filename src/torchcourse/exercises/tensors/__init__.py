"""The exercises of lesson 01, one a module."""
