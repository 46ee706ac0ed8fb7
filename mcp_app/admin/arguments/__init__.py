"""A form made from a tool's input schema, for users who call a tool from the admin.

tree    the arguments that a schema names
kinds   the form field for the schema of a value
fields  form fields whose values are JSON
form    the form
"""
