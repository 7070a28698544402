"""What is public before any row is read: columns, schema, domain, codes, and how far one unit can
move a count."""
