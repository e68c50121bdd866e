"""The private halves of lesson 12's exercises, one a module."""
