"""The private halves of lesson 13's exercises, one a module."""
