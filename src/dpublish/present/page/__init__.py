"""The release as a page: one HTML file for people who will never install anything."""
