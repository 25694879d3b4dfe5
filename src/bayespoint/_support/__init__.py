"""What every package uses: budgets and Ctrl-C, threads, argument checks, devices, types."""
