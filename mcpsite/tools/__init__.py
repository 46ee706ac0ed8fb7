"""Tools that do real work, one in each module. `mcpsite.mcp_tools` imports those that the site offers."""
