"""The private halves of lesson 03's exercises, one a module."""
