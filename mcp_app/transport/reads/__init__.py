"""Resources, prompts and completion: methods that run authors' code in the server process.

In reading order:

    methods      the methods
    author_code  runs authors' code and turns its errors into rejections
    round_trips  a prompt or resource that asks its client for input
"""
