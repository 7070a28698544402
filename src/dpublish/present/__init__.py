"""Releases as people see them: reports, charts, figures, exports."""
