"""The private halves of lesson 11's exercises, one a module."""
