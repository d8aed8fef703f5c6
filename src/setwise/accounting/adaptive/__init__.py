"""The optimum when mechanisms, and the order of their parameters, may depend on earlier answers."""
