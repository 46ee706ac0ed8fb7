"""An app with a tool whose process leaves its parents: in a container it becomes a child of the first process."""
