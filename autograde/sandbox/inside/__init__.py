"""What runs inside a sandbox, and the template process that it is forked from.

In a sandbox this is the only folder of `autograde`, and it holds nothing secret: no reference, no known mistake, no
wanted observation. The template imports it as the package `inside`, so its modules use relative imports.
"""
