"""The live control loop as plain functions: intake, scheduling pass, dispatch, reconciliation, explanation."""
