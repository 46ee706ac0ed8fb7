"""Requests in the admin, and cancelling them.

pages             the three lists (their columns, filters and actions), and each request's page
request_lists     base classes of the lists: fetched fields, filters, search
request_columns   the columns, one method each
in_flight         adds places in the queue and vital signs of workers to the list in flight
request_page      the page of one request
cancelling        the page that asks for a reason
group_cancelling  cancels all requests of the same caller, tool or session, or with the same starter

A new column is a method of `RequestColumns`, a name in `list_display`, and its model fields in `request_lists.FETCHED`.
The method must not have the name of a model field, because Django would show the field instead. `sortable_by` names the
columns that an index can sort. Test it in `tests/admin/test_request_lists.py`, and describe it in
`docs/how-to/admin.md`. Its pictures are taken again by the browser's tests with `MCP_PICTURES`. `mcp watch` shows the
same list in a terminal.
"""
