"""Database time, locks, and JSON values.

clock        database time
locks        retries while the database is locked or away
json_values  JSON values that every database can store
"""
