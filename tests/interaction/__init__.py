"""The requirements of the specification, tested against the endpoint: one module for each of its
pages.

Each test proves one requirement and is named after it. The parts themselves are tested in the
packages that own them.
"""
