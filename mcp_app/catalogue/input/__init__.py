"""Questions to the client.

asking        `elicit`, `ask`, `once`
questions     the kinds of questions, and the checks of their answers
forms         schemas of forms for users
read_context  the context of a resource, a prompt or a completion
"""
