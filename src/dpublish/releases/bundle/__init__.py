"""The file format of releases: archive, manifest, tables, verification."""
