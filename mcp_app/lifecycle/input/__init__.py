"""Input that requests ask of their clients and users, and the answers.

In reading order:

    input_rounds    rounds of questions of a call, each answered once
    task_inputs     questions of a task, answered with `tasks/update`
    session_inputs  questions that legacy clients are asked by requests of the server
    read_questions  questions of prompts and resources, for legacy clients
    visits          pages of the site to which a call sends its user
"""
