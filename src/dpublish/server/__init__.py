"""The curator's office: `dpublish serve`. Pages for people, JSON for programs; a skin over
`dpublish.requests`.

    config      every option of the service, from one file and the command line
    store       the service's own tables and their migrations: who may do what, and who did what
    routes      the one table of routes: path, methods, who may, handler
    app         the application that follows from that table
    accounts    people, passwords, tokens, sessions
    security    headers, forms, limits of rate and size, what an answer may say
    datasets    where rows may come from, and what is declared about them
    releases    proposals, releases that were made, published or withdrawn
    catalogue   what anyone may read, as bytes made in advance
    jobs        one process per private job; `worker` is what runs in it
    desk        query desks: `desk_process` is the process that each has
    pages       what people see
    listen      the socket, and what is said at the start

The service holds no rule of its own about privacy: every product step is a request, private ones
run in a process of their own, and the ledger decides.
"""
