"""What an operator reaches: the control listener, and the status pages."""
