"""Where rows come from, whoever owns them: files, frames and databases."""
