"""Everything that can be asked of dpublish, as records that JSON can carry.

    analyst     of a release; reaches no rows, no ledger and no noise
    curator     methods, releases and keys
    plans       plans, rehearsals and comparisons, before anything is paid
    schemas     what is declared about the rows
    solve       optimisation problems
    online      sessions that answer one question at a time
    ledger      the account that everything is paid from
    local       surveys without a curator
    audit       attempts to refute a claim
    docs        the documentation

The command line and a server are two skins over these modules: a skin reads what people want,
builds a request, runs it and
shows the result. It knows no rule of its own about releases, budgets or rows.
"""
