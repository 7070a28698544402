"""Online sessions: one payment, many answers, durable."""
