"""The private halves of lesson 10's exercises, one a module."""
