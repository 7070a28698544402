"""The curator's side: the gate that turns rows into releases, and what stands around it."""
