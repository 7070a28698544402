"""What people see, by who they are: whoever logs in, curators, approvers, auditors, researchers,
admins. A page reads the service's tables and runs requests; it decides nothing. What the public
sees is made in advance, by `catalogue`."""
