"""The live control loop as plain functions: intake, pass, dispatch, reconciliation, explanation."""
