"""The models of an admin site as tools, by the rights and forms of their ModelAdmins.

publishing    `admin_tools`: the declaration of the tools
admin_calls   the request that the methods of a ModelAdmin receive
listing       pages of rows, with search and filters
rows          one row as JSON
editing       add and change, by the ModelAdmin's form
deleting      delete, with a preview of the rows that are deleted too
row_actions   actions on several rows
"""
