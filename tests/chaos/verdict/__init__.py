"""What must hold once it is quiet: of the rows, of what clients were told, of what tools did, and of what is left."""
