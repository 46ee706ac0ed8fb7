"""`tools/call`, and the methods of the tasks that calls may become.

In reading order:

    stream         serves one call: checks it, follows its row, answers
    dialogue       what a client receives about its call; differs between the eras
    checks         the checks that need the database, and storing the call
    round_trips    a call that returns with answers
    task_methods   `tasks/get`, `tasks/update`, `tasks/cancel`
"""
