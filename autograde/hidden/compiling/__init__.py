"""The private halves of lesson 08's exercises, one a module."""
