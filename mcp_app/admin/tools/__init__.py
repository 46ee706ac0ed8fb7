"""Tools in the admin.

pages            the list and the page of each tool
tool_form        the form for settings that override the code's
tool_texts       sentences about a tool
tool_statistics  calls in flight, and statistics of ended ones
try_tool         calls a tool from its page
try_once         makes repeated clicks on the button one call
tool_calls       stores and queues the calls of staff
"""
