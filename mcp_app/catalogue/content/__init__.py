"""Content of tools, resources and prompts, checked and in the protocol's form.

blocks    content blocks, and checks of all that is sent
contents  resource contents and prompt messages
"""
