"""What people see, by who they are: the public, whoever logs in, curators, approvers, auditors,
researchers, admins. A page reads the service's tables and runs requests; it decides nothing."""
