"""The tools that do something real, one in a module; `mcpsite.mcp_tools` imports those that are offered."""
