"""Tools that do real work, one in each module. `mcpsite.mcp_tools` imports them for the site."""
