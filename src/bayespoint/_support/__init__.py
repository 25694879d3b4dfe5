"""What every room uses: budgets and Ctrl-C, threads, diagnostics of chains, argument checks."""
