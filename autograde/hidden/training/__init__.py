"""The private halves of lesson 05's exercises, one a module."""
