"""Database time, retries, and JSON values.

clock        database time
retries      repeats writes while the database is locked or away
json_values  JSON values that every database can store
"""
