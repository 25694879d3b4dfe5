"""What every room uses: budgets and Ctrl-C, threads, argument checks, devices, types."""
