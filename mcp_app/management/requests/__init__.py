"""The commands about requests.

listing       `mcp requests`
request_rows  a request as table cells, and as JSON
request_ids   finds a request by the beginning of its id
watch         `mcp watch`
cancel        `mcp cancel`
"""
