"""The commands of `manage.py mcp`.

In reading order:

    command_line   the sub-commands and their options
    serving/       `mcp serve`, `mcp worker`, `mcp stdio`, `mcp supervise`
    calling/       `mcp call`
    requests/      `mcp requests`, `mcp watch`, `mcp cancel`
    tools          `mcp tools`
    tokens         `mcp token`
    audit          `mcp audit`
    doctor         `mcp doctor`
    installing     `mcp install`, and the same before the app is in `INSTALLED_APPS`
    interruptions  closed output, Ctrl-C, a database that goes away
    commands/      the command, as Django finds it
    terminal       texts and tables for a terminal
"""
